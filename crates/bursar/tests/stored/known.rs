//! What is in the databases: times, tokens and ids, for SQLite and PostgreSQL.

/// The first full second after the databases of a schema version were made, in microseconds: SQLite, PostgreSQL.
pub(crate) const MADE_AT: [(u32, [i64; 2]); 2] =
    [(1, [1_794_909_582_000_000, 1_794_909_588_000_000]), (4, [1_795_034_249_000_000, 1_795_034_253_000_000])];
/// Tokens that were never redeemed.
pub(crate) const OPEN_TOKEN: [&str; 2] = [
    "bgr_00d1x3sa7kbryy6e1h9f3rwzmqkh88wwjdvrnfpnk7m3pb7atj4rvwnzymzfts7dthrh5svjmcb86ps1mbyf",
    "bgr_00d1x3sbfv3pg6s9c3k26wrf36rgs4n1880j7xsq0wwmqa1nj65gmzdr7ywf9z37b7kgxjav5m9xy9h057x1",
];
pub(crate) const WORKER_TOKEN: [&str; 2] = [
    "bwk_10d1x3saxzvwx6grgg4y1nzvdjejst42w276fzbf25k5jvzqb8ezk1mpetyhhk5eebng22cvs500bzcj49az",
    "bwk_10d1x3scc2kvne2hw4hn7qr7qg48m4eqvhk6ckj32peys7pa7bx9tcjnpqyvkt4bn9f6g9er3smv6edqrsyn",
];
pub(crate) const REVOKED_KEY_TOKEN: [&str; 2] = [
    "bak_10d1x3say4vxgpnhyk8b21ecpc07hsnawjsc53qxha7s20g0tpq60d2maf5jtfq62tg77brbp64e712zy7z5",
    "bak_10d1x3sccdkry6h1td2zx4hv47x00z5s3yw89mrcc5nhvptdtpydgz0qvqrxqqaq1hcs56bdtdbtn59qkx8y",
];
pub(crate) const IDS: [(&str, [&str; 2]); 39] = [
    ("live_hold", ["hold_01m7mf58kjf45ahfypywe16j0f", "hold_01m7mf5dnkfxk946snp8485z6b"]),
    ("extended_hold", ["hold_01m7mf58kpe418f0aqtza2z3ty", "hold_01m7mf5dnweh4t185m7fqkcp5h"]),
    ("overrun_hold", ["hold_01m7mf58m1e3a9arj2a14ajkyn", "hold_01m7mf5dpdftmth9zqbcxjw384"]),
    ("released_hold", ["hold_01m7mf58mefaf88jr2ahpx6qcs", "hold_01m7mf5dq4e5n99q4b5hyfbzmj"]),
    ("expired_hold", ["hold_01m7mf58mmfkfvjztd34crajqw", "hold_01m7mf5dqheg99v22ykpsjs9cb"]),
    ("open_grant", ["grant_01m7mf58ydf3vrsr655wf3kyjy", "grant_01m7mf5dzcet0v55gec8vk1wcv"]),
    ("large_grant", ["grant_01m7mf58ynfrtrrpknfsycpsfz", "grant_01m7mf5dzjfgxtasytanw0tr0c"]),
    ("redeemed_grant", ["grant_01m7mf58ytek9tdt5g846q7xd4", "grant_01m7mf5dzsfjesb9zhjdqtpn3a"]),
    ("upload_job", ["job_01m7mf58z4ftstpyn1a28zh4cs", "job_01m7mf5dzzfnk89xm9mrzqv5wy"]),
    ("revoked_grant", ["grant_01m7mf58z9es6aynwn7zp8bqkt", "grant_01m7mf5e06evj8bf462fzj3gjs"]),
    ("expired_grant", ["grant_01m7mf58zjfa2a19v8ktb1s4vg", "grant_01m7mf5e0efj7v94jm88dbv476"]),
    ("queued_job", ["job_01m7mf591qfdmsmeq3x1b5nexa", "job_01m7mf5e32em3sz91x060y8p2g"]),
    ("leased_job", ["job_01m7mf592senjaqycaen62r2sv", "job_01m7mf5e3he70a5jwsczayxkk3"]),
    ("succeeded_job", ["job_01m7mf593heawt971z9x4tjw1c", "job_01m7mf5e4dfa7rzf6cgdwrszne"]),
    ("retried_job", ["job_01m7mf5944fzbvpk7zz5peve9x", "job_01m7mf5e5hehjahr5wed768kzz"]),
    ("awaiting_job", ["job_01m7mf5958e77v2122d4pbn871", "job_01m7mf5e7tf1z8zhmq22c4bk4z"]),
    ("cancelling_job", ["job_01m7mf597pe1kab53e71zdtscj", "job_01m7mf5ea1eh68a2epvmy5srsn"]),
    ("dead_job", ["job_01m7mf598xe6ga92bnnadax6t7", "job_01m7mf5eakejcvt1a11zw2jr3a"]),
    ("moved_job", ["job_01m7mf59azff9tk9kes8smbfhf", "job_01m7mf5edvfcxbe540nzcemevz"]),
    ("lapsed_job", ["job_01m7mf59c1f80tkphrhz22xqgt", "job_01m7mf5eftf9crg6aynh18kjax"]),
    ("forgotten_job", ["job_01m7mf59m9f94ay6ys4beqe8a4", "job_01m7mf5es9edxb1mkgxpatedy2"]),
    ("first_in_line", ["job_01m7mf59vvfzgrykz9ztfc27jz", "job_01m7mf5fbjea4v3ar4qgnxgz5b"]),
    ("second_in_line", ["job_01m7mf59w2epgahg3mvs45b57s", "job_01m7mf5fbwetdsqak72qn5safg"]),
    ("other_in_line", ["job_01m7mf59x5fzsbcc5afxp2a8b5", "job_01m7mf5fccejjac0gpckvpzajj"]),
    ("run_job", ["job_01m7mf59xvf6r95nr081ejs4zs", "job_01m7mf5fd9fznt529xh1qgh89b"]),
    ("tick_job", ["job_01m7mf5aq2f06rtn1jnfwecdmv", "job_01m7mf5fkgf1gvc2wsk9gfa2kp"]),
    ("rotated_key", ["key_41m7mf5brffb9swnry26yqbggg", "key_41m7mf5hhdfmyrmvb7ahv03g20"]),
    ("acme_job", ["job_01m7mf5bt5fmwvrtvg7pywc2jy", "job_01m7mf5hs5ffk9nbb4m88cejet"]),
    ("acme_waiting", ["job_01m7mf5btae9hap1sc104t3n22", "job_01m7mf5hsyedktx0jvehfcpdvf"]),
    ("old_name_job", ["job_01m7mf5bv6fbybgkhv20j3xz88", "job_01m7mf5hwdeyxbbw8v5wv9g4px"]),
    ("used_blob", ["blob_01m7r61wsze94an2wh5bcssrmv", "blob_01m7r620h4evysqjbfjnw3rx09"]),
    ("made_blob", ["blob_01m7r61ww0ew8r8x37x21dajh8", "blob_01m7r620k3fgga8yfm4e9v5pg4"]),
    ("named_blob", ["blob_01m7r61wxzeww9mdet9awqgg6k", "blob_01m7r620ndejxbdhfpg2g6b64v"]),
    ("deleted_blob", ["blob_01m7r61wyfemvb1f2dfq6p887c", "blob_01m7r620qgf7nbfh6ehfya8pn4"]),
    ("brief_blob", ["blob_01m7r61wz2ev5be262keprr1qz", "blob_01m7r620t3f66b4a13mdyds5en"]),
    ("blob_job", ["job_01m7r61wzve718nv0wwdpag12z", "job_01m7r620w4f85ajp6bd2tf3zd8"]),
    ("charging_hold", ["hold_01m7r61x2de1jtckz1fzr504q6", "hold_01m7r62122e928r3watns2b4d9"]),
    ("charged_hold", ["hold_01m7r61x2kf0wsb67skxhz9dh1", "hold_01m7r6212aea8vyg81nkjfhmya"]),
    ("corrected_hold", ["hold_01m7r61x30e3xt7nvr7k9g3nnm", "hold_01m7r6212hfhs8c1bxtv6mp25j"]),
];
