//! Grants: minting, redemption, revocation, purge.

use bursar_core::grant::GrantFault;
use bursar_core::refusal::Violation;
use bursar_core::request::Redemption;

use crate::story::story;

#[test]
fn a_grant_is_redeemed_once_for_its_purpose_and_subject() {
    story(
        r#"
        mint g upload ann {"size":5}           => minted for 1m
        post redeem:g:upload:bob               => refused: the token is not valid for upload (the purpose or the subject does not match)
        post redeem:g:delete:ann               => refused: the token is not valid for delete (the purpose or the subject does not match)
        post redeem:g!:upload:ann              => refused: the token is not valid for upload (the secret does not match)
        post redeem:missing:upload:ann          => refused: the token is not valid for upload (no such grant)
        post redeem:g:upload:ann tenant=other  => refused: the token is not valid for upload (no such grant)
        post redeem:g:upload:ann               => upload granted {"size":5}
        post redeem:g:upload:ann               => refused: the token is not valid for upload (the grant has been redeemed)
        events                                 => grant.minted, grant.redeemed
        "#,
    );
}

#[test]
fn a_grant_expires_or_is_revoked() {
    story(
        "
        mint old upload ann ttl=5s             => minted for 5s
        mint g upload ann                      => minted for 1m
        mint used upload ann                   => minted for 1m
        post redeem:used:upload:ann            => upload granted null
        after 4999995us
        post redeem:old:upload:ann dry         => upload granted null
        post redeem:old:upload:ann             => refused: the token is not valid for upload (the grant has expired)
        revoke g                               => done
        revoke g                               => done
        post redeem:g:upload:ann               => refused: the token is not valid for upload (the grant was revoked)
        revoke used                            => grant used has already been redeemed
        revoke g tenant=other                  => there is no grant g
        purge                                  => swept 1
        post redeem:old:upload:ann             => refused: the token is not valid for upload (no such grant)
        mint x upload ann ttl=367d             => ttl_ms must be at most 366d (31622400000 ms)
        ",
    );
}

#[test]
fn a_command_cannot_redeem_the_same_grant_twice() {
    story(
        "
        define a 5/lifetime                              => done
        mint g upload ann                                => minted for 1m
        post a=1 redeem:g:upload:ann redeem:g:upload:ann => refused: the token is not valid for upload (the grant has been redeemed)
        left a                                           => 5/5 lifetime
        post redeem:g:upload:ann                         => upload granted null
        + post redeem:g:upload:ann                       => refused: the token is not valid for upload (the grant has been redeemed)
        ",
    );
}

#[test]
fn a_redemption_and_its_charges_are_atomic() {
    story(
        "
        define a 5/lifetime                    => done
        mint g upload ann                      => minted for 1m
        post a=6 redeem:g:upload:ann           => refused: a has 5 left of 5 (lifetime), 6 requested, more than the limit itself
        post a=6 redeem:g:upload:bob           => refused: a has 5 left of 5 (lifetime), 6 requested, more than the limit itself; the token is not valid for upload (the purpose or the subject does not match)
        post a=5 redeem:g:upload:bob           => refused: the token is not valid for upload (the purpose or the subject does not match)
        left a                                 => 5/5 lifetime
        post a=5 redeem:g:upload:ann           => posted: a 0/5 lifetime; upload granted null
        events                                 => budget.defined, grant.minted, spend.posted, grant.redeemed
        ",
    );
}

#[test]
fn all_grant_faults_have_the_same_message() {
    let faults = [
        GrantFault::Malformed,
        GrantFault::Unknown,
        GrantFault::Wrong,
        GrantFault::Mismatch,
        GrantFault::Expired,
        GrantFault::Redeemed,
        GrantFault::Revoked,
    ];
    for fault in faults {
        let violation = Violation::Grant { purpose: "upload".parse().unwrap(), fault };
        assert_eq!(violation.to_string(), "the token is not valid for upload");
    }
    let malformed = Redemption::new("upload".parse().unwrap(), "ann".parse().unwrap(), "bgr_nonsense");
    assert_eq!(malformed.unwrap_err().to_string(), "refused: the token is not valid for upload");
}
