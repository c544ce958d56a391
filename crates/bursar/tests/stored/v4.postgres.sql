--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18
-- Dumped by pg_dump version 15.18

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: bursar; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA bursar;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: blob_digests; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.blob_digests (
    tenant text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    blob uuid NOT NULL
);


--
-- Name: blobs; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.blobs (
    id uuid NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    state smallint NOT NULL,
    at bigint NOT NULL,
    data bytea NOT NULL
)
WITH (fillfactor='70');


--
-- Name: costs; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.costs (
    tenant text NOT NULL COLLATE pg_catalog."C",
    day bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    lane smallint NOT NULL,
    amount bigint NOT NULL
)
WITH (fillfactor='50');


--
-- Name: dead_groups; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.dead_groups (
    tenant text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    lane smallint NOT NULL,
    count bigint NOT NULL
)
WITH (fillfactor='50');


--
-- Name: ended_jobs; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.ended_jobs (
    id uuid NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    state smallint NOT NULL,
    at bigint NOT NULL,
    data bytea NOT NULL,
    fingerprint text COLLATE pg_catalog."C"
);


--
-- Name: grants; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.grants (
    id uuid NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    expires_at bigint NOT NULL,
    state smallint NOT NULL,
    data bytea NOT NULL
)
WITH (fillfactor='45');


--
-- Name: held; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.held (
    tenant text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    unit text NOT NULL COLLATE pg_catalog."C",
    lane smallint NOT NULL,
    high bigint NOT NULL,
    low bigint NOT NULL
)
WITH (fillfactor='50');


--
-- Name: holds; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.holds (
    id uuid NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    state smallint NOT NULL,
    expires_at bigint NOT NULL,
    data bytea NOT NULL
);


--
-- Name: job_keys; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.job_keys (
    tenant text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    job uuid NOT NULL
);


--
-- Name: jobs; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.jobs (
    id uuid NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    flow text NOT NULL COLLATE pg_catalog."C",
    state smallint NOT NULL,
    rank bigint NOT NULL,
    at bigint NOT NULL,
    awaits text COLLATE pg_catalog."C",
    spec bytea NOT NULL,
    life bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0');


--
-- Name: journal; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.journal (
    id uuid NOT NULL,
    at bigint NOT NULL,
    count integer NOT NULL,
    prev text NOT NULL,
    entries text NOT NULL
);
ALTER TABLE ONLY bursar.journal ALTER COLUMN prev SET COMPRESSION lz4;
ALTER TABLE ONLY bursar.journal ALTER COLUMN entries SET COMPRESSION lz4;


--
-- Name: journal_new; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.journal_new (
    seq bigint NOT NULL,
    id uuid NOT NULL,
    count integer NOT NULL
);


--
-- Name: journal_new_seq_seq; Type: SEQUENCE; Schema: bursar; Owner: -
--

ALTER TABLE bursar.journal_new ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME bursar.journal_new_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: journal_order; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.journal_order (
    "position" bigint NOT NULL,
    id uuid NOT NULL,
    count integer NOT NULL
);


--
-- Name: keys; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.keys (
    tenant text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    fingerprint uuid NOT NULL,
    batch uuid NOT NULL,
    command uuid NOT NULL,
    until bigint NOT NULL
);


--
-- Name: live_charges; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.live_charges (
    tenant text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    expires_at bigint NOT NULL,
    hold uuid NOT NULL,
    placed_at bigint NOT NULL,
    amount bigint NOT NULL,
    on_expiry bigint DEFAULT 0 NOT NULL
);


--
-- Name: meta; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.meta (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);


--
-- Name: namespaces; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.namespaces (
    tenant text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    data text NOT NULL
);


--
-- Name: payloads; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.payloads (
    id uuid NOT NULL,
    data text NOT NULL
);


--
-- Name: postings; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.postings (
    tenant text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    seq bigint NOT NULL,
    amount bigint NOT NULL,
    hold uuid
);


--
-- Name: queues; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.queues (
    tenant text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    data text NOT NULL
);


--
-- Name: rollups; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.rollups (
    tenant text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    amount bigint NOT NULL
);


--
-- Name: schedules; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.schedules (
    tenant text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    next_at bigint NOT NULL,
    data text NOT NULL
);


--
-- Name: scopes; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.scopes (
    tenant text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    state bytea NOT NULL,
    budget text
)
WITH (fillfactor='50');


--
-- Name: tallies; Type: TABLE; Schema: bursar; Owner: -
--

CREATE TABLE bursar.tallies (
    tenant text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    what smallint NOT NULL,
    minute bigint NOT NULL,
    lane smallint NOT NULL,
    count bigint NOT NULL
)
WITH (fillfactor='50');


--
-- Data for Name: blob_digests; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.blob_digests (tenant, namespace, digest, blob) FROM stdin;
default	media	\\xaae37f9f7de396414419d9ed8d2321d450519b2d16797aab63c6ea51229c05a2	01a1f061-0224-76fd-9bc9-6f95783c7409
default	media	\\x29402bd01d32995831eccc95ae2f0a249db2d864058a8a98ef40f75f9b6cb94d	01a1f061-0263-7c20-a479-f42393b2da04
default	media	\\x012ad4adb01cdd24010d58025bbf069351b424bf6d39bd1296a0a1e18842ac47	01a1f061-02ad-74ba-b6c5-f680a065989b
default	brief	\\x6d2fe32dc4249ef7e7359c6d874fffbbf335e832e49a2681236e1b686af78794	01a1f061-0343-798c-b228-23a37cdc95d5
\.


--
-- Data for Name: blobs; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.blobs (id, tenant, namespace, state, at, data) FROM stdin;
01a1f061-02ad-74ba-b6c5-f680a065989b	default	media	1	9223372036854775807	\\x011001a1f06102ad74bab6c5f680a065989b0764656661756c74056d656469610101096e616d65642e7478740a746578742f706c61696e0b7b22616c62756d223a377d011e0120012ad4adb01cdd24010d58025bbf069351b424bf6d39bd1296a0a1e18842ac47056c6f63616c0001046469736b011001a1f06102ad74bab6c5f680a065989abad693afdfa4b00601086f70657261746f720000000107706f73743a343203011001a1f06102e472dda2fb3a639d554468
01a1f061-02f0-79ea-b7c4-ce8bfca45aa4	default	media	1	1795120652062764	\\x011001a1f06102f079eab7c4ce8bfca45aa40764656661756c74056d6564696101010b64656c657465642e7478740a746578742f706c61696e046e756c6c0114012076b7e4422b33017fd84578ba8ff45ac7864686aefcc40f695af6ad371e2ed5f0056c6f63616c0001046469736b011001a1f06102f079eab7c4ce8bfca45aa3aee89bafdfa4b00601086f70657261746f7201dac0a1afdfa4b006dac0dc8ce3a9b006000003011001a1f061031c7968ab0ae3c932fb3e97
01a1f061-0343-798c-b228-23a37cdc95d5	default	brief	1	1795120652112638	\\x011001a1f0610343798cb22823a37cdc95d50764656661756c7405627269656601010962726965662e7478740a746578742f706c61696e046e756c6c010a01206d2fe32dc4249ef7e7359c6d874fffbbf335e832e49a2681236e1b686af78794056c6f63616c00000094fda5afdfa4b00601086f70657261746f7200fecbe28ce3a9b006000002011001a1f061034f78c4a33074513108f5a8
01a1f061-036d-79b6-b5d3-6f3b1e5b7eca	default	media	0	1795552652141242	\\x011001a1f061036d79b6b5d36f3b1e5b7eca0764656661756c74056d6564696100010b70656e64696e672e7478740a746578742f706c61696e046e756c6c013c0120abababababababababababababababababababababababababababababababab056c6f63616c0101046469736b011001a1f061036d79b6b5d36f3b1e5b7ec9f68aabafdfa4b00601086f70657261746f7200f68a8de0f5c2b006000001011001a1f061036a7059ac7f9508e649e822
01a1f061-0224-76fd-9bc9-6f95783c7409	default	media	1	9223372036854775807	\\x011001a1f061022476fd9bc96f95783c74090764656661756c74056d65646961010108757365642e7478740a746578742f706c61696e046e756c6c01640120aae37f9f7de396414419d9ed8d2321d450519b2d16797aab63c6ea51229c05a2056c6f63616c0001046469736b011001a1f061022476fd9bc96f95783c7408d6ff82afdfa4b00601086f70657261746f720000010003011001a1f06103827f808c0be5e167506f2b
01a1f061-0263-7c20-a479-f42393b2da04	default	media	1	9223372036854775807	\\x011001a1f06102637c20a479f42393b2da040764656661756c74056d656469610101086d6164652e7478740a746578742f706c61696e046e756c6c0128012029402bd01d32995831eccc95ae2f0a249db2d864058a8a98ef40f75f9b6cb94d056c6f63616c0001046469736b011001a1f06102637c20a479f42393b2da03c0d98aafdfa4b00601086f70657261746f720000010003011001a1f06103ba7673aeba9c112efad570
\.


--
-- Data for Name: costs; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.costs (tenant, day, queue, kind, scope, lane, amount) FROM stdin;
default	20775	media	cut	team	47	320
\.


--
-- Data for Name: dead_groups; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.dead_groups (tenant, queue, kind, fingerprint, lane, count) FROM stdin;
default	media	fails	ex069mg8rs3ar3kf	47	1
default	media	fails	ex069mg8rs3ar3kf	46	2
\.


--
-- Data for Name: ended_jobs; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.ended_jobs (id, tenant, queue, kind, state, at, data, fingerprint) FROM stdin;
01a1f061-0384-7a0a-a958-cb68b4f1fda8	default	media	cut	4	1795034252223006	\\x011001a1f06103847a0aa958cb68b4f1fda80764656661756c74056d656469610003637574046e756c6c000000046e756c6c000000000000011001a1f06103847a0aa958cb68b4f1fda7f4fbadafdfa4b00603011001a1f06103ba7673aeba9c112efad57004be88b5afdfa4b006f4fbadafdfa4b0060101000100000000046e756c6c0001047465616d8005000001086f70657261746f720101047465616d800500021001a1f061022476fd9bc96f95783c74091001a1f06102637c20a479f42393b2da04	\N
01a1f061-03ce-7a2b-8eb8-c7fe1ee2f57d	default	media	fails	6	1795034252252370	\\x011001a1f06103ce7a2b8eb8c7fe1ee2f57d0764656661756c74056d6564696100056661696c73046e756c6c000000046e756c6c0000000000000094fcb6afdfa4b00604011001a1f06103dc7f86a9fb60437822056706a6d3b8afdfa4b006000101000101000000046e756c6c0105636f646563196672616d6520302063616e6e6f74206265206465636f64656400000001086f70657261746f72010000	ex069mg8rs3ar3kf
01a1f061-03ea-76f0-982d-83dfaba2d338	default	media	fails	6	1795034252284397	\\x011001a1f06103ea76f0982d83dfaba2d3380764656661756c74056d6564696100056661696c73046e756c6c000000046e756c6c00000000000000d8aabaafdfa4b00604011001a1f06103fc7b81bce5f4b76e2ddc6306dcc7bcafdfa4b006000101000101000000046e756c6c0105636f646563196672616d6520312063616e6e6f74206265206465636f64656400000001086f70657261746f72010000	ex069mg8rs3ar3kf
01a1f061-0414-71ef-b9aa-c4de8808a426	default	media	fails	6	1795034252346434	\\x011001a1f061041471efb9aac4de8808a4260764656661756c74056d6564696100056661696c73046e756c6c000000046e756c6c00000000000000a6c1bfafdfa4b00604011001a1f061043a732492faa4376bd30df5068691c4afdfa4b006000101000101000000046e756c6c0105636f646563196672616d6520322063616e6e6f74206265206465636f64656400000001086f70657261746f72010000	ex069mg8rs3ar3kf
\.


--
-- Data for Name: grants; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.grants (id, tenant, expires_at, state, data) FROM stdin;
81a1f061-00d7-7406-8bae-b58eee315fd6	default	9223372036854775807	0	\\x011081a1f06100d774068baeb58eee315fd60764656661756c7420c2376b4556bde0e446e153b184b2fd555b2093e4e4228d44eb833614cc82e1470f6275727361723a6f70657261746f72086f70657261746f72046e756c6c000002011001a1f061013576cf8d053e0d5a0ae386
81a1f061-0371-72d8-9d67-7242f87ce721	default	1795293452145574	0	\\x011081a1f061037172d89d677242f87ce7210764656661756c742047946f668272b00f177f903e61833a39dce000d41888045e23e825e079dc18f40b6275727361723a6c696e6b1f626c6f625f30316d3772363230766466367662626d766637636635707a7061397b22626c6f62223a22626c6f625f30316d3772363230766466367662626d766637636635707a7061222c22616374223a2275706c6f6164227dcecedcc7eab3b0060001011001a1f061037172d89d677242f87ce722
81a1f061-0377-7717-9505-2930e51a2249	default	1795639052152703	0	\\x011081a1f0610377771795052930e51a22490764656661756c742048e0c65a7d3590a682bac95705552a3a43391ee4a8ac107baa94176ed823c1560b6275727361723a6c696e6b1f626c6f625f30316d37723632306e64656a7862646866706732673662363476377b22626c6f62223a22626c6f625f30316d37723632306e64656a7862646866706732673662363476222c22616374223a2272656164227d80bec9bdf9c7b0060001011001a1f061037970c68a191748931be365
\.


--
-- Data for Name: held; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.held (tenant, queue, kind, unit, lane, high, low) FROM stdin;
default	media	cut		47	0	0
\.


--
-- Data for Name: holds; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.holds (id, tenant, state, expires_at, data) FROM stdin;
01a1f061-0224-76fd-9bc9-6f95783c7408	default	1	1795037851812842	\\x011001a1f061022476fd9bc96f95783c74080764656661756c7401d6ff82afdfa4b006d68fa098faa4b0060000000001046469736bc80101c801000002011001a1f0610239758cbd01ecda7cefd1e7000001968286afdfa4b006011001a1f061022476fd9bc96f95783c7409
01a1f061-0263-7c20-a479-f42393b2da03	default	1	1795037851875935	\\x011001a1f06102637c20a479f42393b2da030764656661756c7401c0d98aafdfa4b006c0e9a798faa4b0060000000001046469736b500150000002011001a1f061028678eebacfc8060b5cfa9d000001bea990afdfa4b006011001a1f06102637c20a479f42393b2da04
01a1f061-02ad-74ba-b6c5-f680a065989a	default	1	1795037851949468	\\x011001a1f06102ad74bab6c5f680a065989a0764656661756c7401bad693afdfa4b006bae6b098faa4b0060000000001046469736b3c013c000002011001a1f06102ce7e60a1442c5e8082b57d000001e48f98afdfa4b006011001a1f06102ad74bab6c5f680a065989b
01a1f061-02f0-79ea-b7c4-ce8bfca45aa3	default	1	1795037852016150	\\x011001a1f06102f079eab7c4ce8bfca45aa30764656661756c7401aee89bafdfa4b006aef8b898faa4b0060000000001046469736b280128000002011001a1f06102fc74f2bfa9c731777172e300000180db9dafdfa4b006011001a1f06102f079eab7c4ce8bfca45aa4
01a1f061-036d-79b6-b5d3-6f3b1e5b7ec9	default	0	1795037852141242	\\x011001a1f061036d79b6b5d36f3b1e5b7ec90764656661756c7400f68aabafdfa4b006f69ac898faa4b0060000000001046469736b7800000001011001a1f061036a7059ac7f9508e649e822000000011001a1f061036d79b6b5d36f3b1e5b7eca
01a1f061-0384-7a0a-a958-cb68b4f1fda7	default	1	9223372036854775807	\\x011001a1f06103847a0aa958cb68b4f1fda70764656661756c7401f4fbadafdfa4b00600000000011001a1f06103847a0aa958cb68b4f1fda801047465616de807018005000002011001a1f06103ba7673aeba9c112efad570000001be88b5afdfa4b00600
01a1f061-0442-7244-8c0f-8ad5722591a9	default	0	1797626252354633	\\x011001a1f061044272448c0f8ad5722591a90764656661756c74009491c5afdfa4b0069491afa3cfbbb1060000000001047465616df80a00000001011001a1f061044272448c0f8ad5722591a70001b009
01a1f061-044a-7291-bf41-01ace4f8d3ca	default	3	1795034252363636	\\x011001a1f061044a7291bf4101ace4f8d3ca0764656661756c74039a8ec6afdfa4b006ea9dc6afdfa4b0060000000001047465616db40100000002011001a1f061045a7d80830035d3ec6595bb0001a001019e90c8afdfa4b00600
01a1f061-0451-7c72-8605-7dd6cd4b08b2	default	1	1795034252370505	\\x011001a1f06104517c7286057dd6cd4b08b20764656661756c7401c4f9c6afdfa4b0069489c7afdfa4b0060000000001047465616d640132000003011001a1f061052c73a096f838815b63b75401dcf4e1afdfa4b00600015001dcf4e1afdfa4b00600
\.


--
-- Data for Name: job_keys; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.job_keys (tenant, queue, key, job) FROM stdin;
\.


--
-- Data for Name: jobs; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.jobs (id, tenant, queue, kind, flow, state, rank, at, awaits, spec, life) FROM stdin;
\.


--
-- Data for Name: journal; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.journal (id, at, count, prev, entries) FROM stdin;
01a1f061-00dd-75d2-94ee-6c2314176688	1795034251484523	1	{}	[{"id":"cmd_01m7r6206xeq999vkc4ca1esm9","context":{"tenant":"default","actor":"system"},"events":[{"v":1,"e":{"grant.minted":{"grant":"grant_41m7r6206qeg38qbnnhvq32qyp","digest":"1ghqdd2ndff0wh3e2mxhgjsftnav429y9s12hn2eq0sp2k685ra7","purpose":"bursar:operator","subject":"operator","payload":null,"expires_at":9223372036854775807}}}]}]
01a1f061-0135-76cf-8d05-3e0d5a0ae386	1795034251595152	1	{"grant:grant_41m7r6206qeg38qbnnhvq32qyp":"tx_01m7r6206xeq999vkc4ca1esm8"}	[{"id":"cmd_01m7r620apefbsjj0chh3ydhax","context":{"tenant":"default","actor":{"user":"operator"}},"events":[{"v":2,"e":{"grant.used":{"grant":"grant_41m7r6206qeg38qbnnhvq32qyp"}}}]}]
01a1f061-012f-7a65-8e69-9ed09c402041	1795034251606210	1	{}	[{"id":"cmd_01m7r620apefbsjj0chh3ydhaw","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"3b4b2f26c5403e551564bb2021bc1f9c"},"events":[{"v":1,"e":{"budget.defined":{"scope":"disk","budget":{"unit":"byte","parent":null,"limits":[{"amount":1000,"window":"lifetime"}],"hold":{"ttl_min":5000000,"ttl":null,"ttl_max":null,"life_max":null,"late":"charge","overrun":"charge"},"trip":null,"thresholds":[]}}}}]}]
01a1f061-0199-7834-b0ab-ff19c07905be	1795034251682960	1	{}	[{"id":"cmd_01m7r620d2fkvt32gfwkrt8jmv","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"64d09531b2119700703e24d7819b0495"},"events":[{"v":1,"e":{"budget.defined":{"scope":"team","budget":{"unit":"","parent":null,"limits":[{"amount":10000,"window":"lifetime"}],"hold":{"ttl_min":1000,"ttl":null,"ttl_max":2592000000000,"life_max":null,"late":"charge","overrun":"charge"},"trip":null,"thresholds":[]}}}}]}]
01a1f061-01c8-7092-8346-2581af86b3b6	1795034251727641	1	{}	[{"id":"cmd_01m7r620eff8jbxh3pccwc56wk","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"8ba349145bf17b9b200c90163b0f57ff"},"events":[{"v":1,"e":{"namespace.defined":{"namespace":"media","config":{"bytes_max":500,"charge":"disk","grace":86400000000}}}}]}]
01a1f061-01fd-70a8-8d2e-62a24923808a	1795034251772437	1	{}	[{"id":"cmd_01m7r620fxe2m8tbk2m94j704b","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"1a4165914546415464096e0d4e61d2fa"},"events":[{"v":1,"e":{"namespace.defined":{"namespace":"brief","config":{"bytes_max":5497558138880,"grace":604800000000,"unreferenced":86400000000}}}}]}]
01a1f061-0222-79d8-81f1-74bf8e8628b2	1795034251812842	2	{"scope:default\\tdisk":"tx_01m7r6209ff9jrwtcyt2e40821"}	[{"id":"cmd_01m7r620h4evysqjbfjnw3rx07","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"d7f5b6f8a0e5067efa3bd7aa1beb262d"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r620h4evysqjbfjnw3rx08","charges":[{"scope":"disk","amount":100,"balances":[{"window":"lifetime","limit":1000,"remaining":900}]}],"expires_at":1795037851812842,"clamped":{"requested":86400000000,"granted":3600000000}}}},{"v":1,"e":{"blob.started":{"blob":"blob_01m7r620h4evysqjbfjnw3rx09","spec":{"namespace":"media","backend":"local","filename":"used.txt","content_type":"text/plain","size":100},"due_at":1795120651812842,"charge":"disk","hold":"hold_01m7r620h4evysqjbfjnw3rx08"}}}]}]
01a1f061-0239-758c-bd01-ecda7cefd1e7	1795034251837578	2	{"hold:hold_01m7r620h4evysqjbfjnw3rx08":"tx_01m7r620h2f7c83wbmqy78ca5j","scope:default\\tdisk":"tx_01m7r620h2f7c83wbmqy78ca5j","blob:blob_01m7r620h4evysqjbfjnw3rx09":"tx_01m7r620h2f7c83wbmqy78ca5j"}	[{"id":"cmd_01m7r620hxee6ss9xkgcqhr74v","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"d7f5b6f8a0e5067efa3bd7aa1beb262d"},"events":[{"v":2,"e":{"hold.committed":{"hold":"hold_01m7r620h4evysqjbfjnw3rx08","charges":[{"scope":"disk","amount":100,"actual":100,"balances":[{"window":"lifetime","limit":1000,"remaining":900}]}]}}},{"v":2,"e":{"blob.stored":{"blob":"blob_01m7r620h4evysqjbfjnw3rx09","size":100,"digest":"aae37f9f7de396414419d9ed8d2321d450519b2d16797aab63c6ea51229c05a2"}}}]}]
01a1f061-025f-74d2-991d-8aee47927ec9	1795034251875935	2	{"scope:default\\tdisk":"tx_01m7r620hsep6bt0fcv9yezmf7"}	[{"id":"cmd_01m7r620k3fgga8yfm4e9v5pg2","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"3e0f7605b3ab2f0f8f322f5279d1c955"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r620k3fgga8yfm4e9v5pg3","charges":[{"scope":"disk","amount":40,"balances":[{"window":"lifetime","limit":1000,"remaining":860}]}],"expires_at":1795037851875935,"clamped":{"requested":86400000000,"granted":3600000000}}}},{"v":1,"e":{"blob.started":{"blob":"blob_01m7r620k3fgga8yfm4e9v5pg4","spec":{"namespace":"media","backend":"local","filename":"made.txt","content_type":"text/plain","size":40},"due_at":1795120651875935,"charge":"disk","hold":"hold_01m7r620k3fgga8yfm4e9v5pg3"}}}]}]
01a1f061-0286-78ee-bacf-c8060b5cfa9d	1795034251922014	2	{"hold:hold_01m7r620k3fgga8yfm4e9v5pg3":"tx_01m7r620jzek99j7caxs3s4zp9","scope:default\\tdisk":"tx_01m7r620jzek99j7caxs3s4zp9","blob:blob_01m7r620k3fgga8yfm4e9v5pg4":"tx_01m7r620jzek99j7caxs3s4zp9"}	[{"id":"cmd_01m7r620mjedsbkj3taye23kby","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"3e0f7605b3ab2f0f8f322f5279d1c955"},"events":[{"v":2,"e":{"hold.committed":{"hold":"hold_01m7r620k3fgga8yfm4e9v5pg3","charges":[{"scope":"disk","amount":40,"actual":40,"balances":[{"window":"lifetime","limit":1000,"remaining":860}]}]}}},{"v":2,"e":{"blob.stored":{"blob":"blob_01m7r620k3fgga8yfm4e9v5pg4","size":40,"digest":"29402bd01d32995831eccc95ae2f0a249db2d864058a8a98ef40f75f9b6cb94d"}}}]}]
01a1f061-02a8-7d5d-b951-785cfe7f19d5	1795034251949468	2	{"scope:default\\tdisk":"tx_01m7r620m6f3qbnky80r5nsymx"}	[{"id":"cmd_01m7r620ndejxbdhfpg2g6b64s","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"9f9dc87dc4a335fc3162066d1b7350bb"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r620ndejxbdhfpg2g6b64t","charges":[{"scope":"disk","amount":30,"balances":[{"window":"lifetime","limit":1000,"remaining":830}]}],"expires_at":1795037851949468,"clamped":{"requested":86400000000,"granted":3600000000}}}},{"v":1,"e":{"blob.started":{"blob":"blob_01m7r620ndejxbdhfpg2g6b64v","spec":{"namespace":"media","backend":"local","filename":"named.txt","content_type":"text/plain","metadata":{"album":7},"size":30},"due_at":1795120651949468,"charge":"disk","hold":"hold_01m7r620ndejxbdhfpg2g6b64t"}}}]}]
01a1f061-02ce-7e60-a144-2c5e8082b57d	1795034251985905	2	{"hold:hold_01m7r620ndejxbdhfpg2g6b64t":"tx_01m7r620n8fnevjmbrbkz7y6en","scope:default\\tdisk":"tx_01m7r620n8fnevjmbrbkz7y6en","blob:blob_01m7r620ndejxbdhfpg2g6b64v":"tx_01m7r620n8fnevjmbrbkz7y6en"}	[{"id":"cmd_01m7r620phe3k95axgs8njknw4","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"9f9dc87dc4a335fc3162066d1b7350bb"},"events":[{"v":2,"e":{"hold.committed":{"hold":"hold_01m7r620ndejxbdhfpg2g6b64t","charges":[{"scope":"disk","amount":30,"actual":30,"balances":[{"window":"lifetime","limit":1000,"remaining":830}]}]}}},{"v":2,"e":{"blob.stored":{"blob":"blob_01m7r620ndejxbdhfpg2g6b64v","size":30,"digest":"012ad4adb01cdd24010d58025bbf069351b424bf6d39bd1296a0a1e18842ac47"}}}]}]
01a1f061-02e4-72dd-a2fb-3a639d554468	1795034252004695	1	{"blob:blob_01m7r620ndejxbdhfpg2g6b64v":"tx_01m7r620pefsga2h1cbt085dbx"}	[{"id":"cmd_01m7r620q4ebet5ystceenah39","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"1499578e127348ee8c0e38695e55150c"},"events":[{"v":3,"e":{"blob.referenced":{"blob":"blob_01m7r620ndejxbdhfpg2g6b64v","by":{"name":"post:42"}}}}]}]
01a1f061-0343-798c-b228-23a37cdc95d3	1795034252099401	1	{}	[{"id":"cmd_01m7r620t3f66b4a13mdyds5em","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"07e27a77eb6984d2bf81d2456eaedb91"},"events":[{"v":1,"e":{"blob.started":{"blob":"blob_01m7r620t3f66b4a13mdyds5en","spec":{"namespace":"brief","backend":"local","filename":"brief.txt","content_type":"text/plain","size":10},"due_at":1795120652099401}}}]}]
01a1f061-02ef-7dce-89f2-9ed5660210f7	1795034252016150	2	{"scope:default\\tdisk":"tx_01m7r620pefsga2h1cbt085dbx"}	[{"id":"cmd_01m7r620qgf7nbfh6ehfya8pn2","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"f97617589605c591af92319b3f011d58"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r620qgf7nbfh6ehfya8pn3","charges":[{"scope":"disk","amount":20,"balances":[{"window":"lifetime","limit":1000,"remaining":810}]}],"expires_at":1795037852016150,"clamped":{"requested":86400000000,"granted":3600000000}}}},{"v":1,"e":{"blob.started":{"blob":"blob_01m7r620qgf7nbfh6ehfya8pn4","spec":{"namespace":"media","backend":"local","filename":"deleted.txt","content_type":"text/plain","size":20},"due_at":1795120652016150,"charge":"disk","hold":"hold_01m7r620qgf7nbfh6ehfya8pn3"}}}]}]
01a1f061-02fc-74f2-bfa9-c731777172e3	1795034252031679	2	{"hold:hold_01m7r620qgf7nbfh6ehfya8pn3":"tx_01m7r620qffq78kwmytnk0447q","scope:default\\tdisk":"tx_01m7r620qffq78kwmytnk0447q","blob:blob_01m7r620qgf7nbfh6ehfya8pn4":"tx_01m7r620qffq78kwmytnk0447q"}	[{"id":"cmd_01m7r620qzf9pvc51sfkzs3rdj","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"f97617589605c591af92319b3f011d58"},"events":[{"v":2,"e":{"hold.committed":{"hold":"hold_01m7r620qgf7nbfh6ehfya8pn3","charges":[{"scope":"disk","amount":20,"actual":20,"balances":[{"window":"lifetime","limit":1000,"remaining":810}]}]}}},{"v":2,"e":{"blob.stored":{"blob":"blob_01m7r620qgf7nbfh6ehfya8pn4","size":20,"digest":"76b7e4422b33017fd84578ba8ff45ac7864686aefcc40f695af6ad371e2ed5f0"}}}]}]
01a1f061-031c-7968-ab0a-e3c932fb3e97	1795034252062764	1	{"blob:blob_01m7r620qgf7nbfh6ehfya8pn4":"tx_01m7r620qweksbzae765vq2wq3"}	[{"id":"cmd_01m7r620rye9ptneqj9ej5k9wq","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"a78a6fba3fbaaa7b0a6abad14d006e40"},"events":[{"v":3,"e":{"blob.deleted":{"blob":"blob_01m7r620qgf7nbfh6ehfya8pn4","due_at":1795120652062764}}}]}]
01a1f061-03fc-7b81-bce5-f4b76e2ddc63	1795034252284397	2	{"job:job_01m7r620zaevr9gbc3vynt5msr":"tx_01m7r620zhec3vqfc3867m5q9g"}	[{"id":"cmd_01m7r620zwfe0vssfmpxq2vq34","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"9258239971b4cf1e634bf7a145b82cdf"},"events":[{"v":3,"e":{"job.failed":{"job":"job_01m7r620zaevr9gbc3vynt5msr","fence":1,"attempt":1,"worker":"crew","error":{"kind":"codec","message":"frame 1 cannot be decoded"}}}},{"v":4,"e":{"job.dead_lettered":{"job":"job_01m7r620zaevr9gbc3vynt5msr"}}}]}]
01a1f061-0414-71ef-b9aa-c4de8808a423	1795034252308562	1	{}	[{"id":"cmd_01m7r6210me7qvkap4vt40h914","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"c734e7930ec9441dbf25e410ec170a95"},"events":[{"v":1,"e":{"job.enqueued":{"job":"job_01m7r6210me7qvkap4vt40h916","spec":{"queue":"media","kind":"fails"},"run_at":1795034252308562}}}]}]
01a1f061-0421-72dd-8301-fc506d779707	1795034252320821	1	{"job:job_01m7r6210me7qvkap4vt40h916":"tx_01m7r6210me7qvkap4vt40h913"}	[{"id":"cmd_01m7r62111eber60fwa1pqf5r8","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"1bc683fb85b80ff4413da66cfe039de4"},"events":[{"v":2,"e":{"job.leased":{"job":"job_01m7r6210me7qvkap4vt40h916","fence":1,"attempt":1,"worker":"crew","lease":43200000000,"owner":"operator"}}}]}]
01a1f061-043a-7324-92fa-a4376bd30df5	1795034252346434	2	{"job:job_01m7r6210me7qvkap4vt40h916":"tx_01m7r62111eber60fwa1pqf5r7"}	[{"id":"cmd_01m7r6211tecj95yn46xnx63fp","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"eb4a1fbe291c3ceff21165393cd085fb"},"events":[{"v":3,"e":{"job.failed":{"job":"job_01m7r6210me7qvkap4vt40h916","fence":1,"attempt":1,"worker":"crew","error":{"kind":"codec","message":"frame 2 cannot be decoded"}}}},{"v":4,"e":{"job.dead_lettered":{"job":"job_01m7r6210me7qvkap4vt40h916"}}}]}]
01a1f061-0442-7244-8c0f-8ad5722591a7	1795034252354633	1	{"scope:default\\tteam":"tx_01m7r620xtesstxemw24qfnnbg"}	[{"id":"cmd_01m7r62122e928r3watns2b4d8","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"c3a968b76eb66b0cb77a29c237c0acc9"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r62122e928r3watns2b4d9","charges":[{"scope":"team","amount":700,"balances":[{"window":"lifetime","limit":10000,"remaining":8980}]}],"expires_at":1797626252354633,"on_expiry":{"charge":600}}}}]}]
01a1f061-044a-7291-bf41-01ace4f8d3c8	1795034252362636	1	{"scope:default\\tteam":"tx_01m7r62122e928r3watns2b4d7"}	[{"id":"cmd_01m7r6212aea8vyg81nkjfhmy9","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"714fabe3dc7546ed93e8fbdc809aec93"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r6212aea8vyg81nkjfhmya","charges":[{"scope":"team","amount":90,"balances":[{"window":"lifetime","limit":10000,"remaining":8890}]}],"expires_at":1795034252363636,"on_expiry":{"charge":80}}}}]}]
01a1f061-0450-717d-ba11-a6f73b348fc6	1795034252369505	1	{"scope:default\\tteam":"tx_01m7r6212aea8vyg81nkjfhmy8"}	[{"id":"cmd_01m7r6212hfhs8c1bxtv6mp25h","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"e3d3a04f25e5b1b2c7f61422ea33c635"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r6212hfhs8c1bxtv6mp25j","charges":[{"scope":"team","amount":50,"balances":[{"window":"lifetime","limit":10000,"remaining":8850}]}],"expires_at":1795034252370505,"on_expiry":{"charge":40}}}}]}]
01a1f061-034f-78c4-a330-74513108f5a8	1795034252112638	1	{"blob:blob_01m7r620t3f66b4a13mdyds5en":"tx_01m7r620t3f66b4a13mdyds5ek"}	[{"id":"cmd_01m7r620tgfnm9jsdezk4j3s3c","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"07e27a77eb6984d2bf81d2456eaedb91"},"events":[{"v":2,"e":{"blob.stored":{"blob":"blob_01m7r620t3f66b4a13mdyds5en","size":10,"digest":"6d2fe32dc4249ef7e7359c6d874fffbbf335e832e49a2681236e1b686af78794","due_at":1795120652112638}}}]}]
01a1f061-036a-7059-ac7f-9508e649e822	1795034252141242	2	{"scope:default\\tdisk":"tx_01m7r620qweksbzae765vq2wq3"}	[{"id":"cmd_01m7r620vdf6vbbmvf7cf5pzp8","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"3dafed66c087747224eac787cf1ee209"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r620vdf6vbbmvf7cf5pzp9","charges":[{"scope":"disk","amount":60,"balances":[{"window":"lifetime","limit":1000,"remaining":750}]}],"expires_at":1795037852141242,"clamped":{"requested":518400000000,"granted":3600000000}}}},{"v":1,"e":{"blob.started":{"blob":"blob_01m7r620vdf6vbbmvf7cf5pzpa","spec":{"namespace":"media","backend":"local","filename":"pending.txt","content_type":"text/plain","size":60,"digest":"abababababababababababababababababababababababababababababababab","staged":true},"due_at":1795552652141242,"charge":"disk","hold":"hold_01m7r620vdf6vbbmvf7cf5pzp9"}}}]}]
01a1f061-0371-72d8-9d67-7242f87ce722	1795034252145574	1	{}	[{"id":"cmd_01m7r620vhebc9tsvj8bw7sss3","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"3dafed66c087747224eac787cf1ee209"},"events":[{"v":1,"e":{"grant.minted":{"grant":"grant_41m7r620vhebc9tsvj8bw7sss1","digest":"0hwmdxk84wng1wbqz41yc61kmeeww00d86480hf27t15w1wxr67m","purpose":"bursar:link","subject":"blob_01m7r620vdf6vbbmvf7cf5pzpa","payload":{"blob":"blob_01m7r620vdf6vbbmvf7cf5pzpa","act":"upload"},"expires_at":1795293452145574}}}]}]
01a1f061-0379-70c6-8a19-1748931be365	1795034252152703	1	{}	[{"id":"cmd_01m7r620vse338m68q929hqrv6","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"79cd5f4f633acf3485416f560038855e"},"events":[{"v":1,"e":{"grant.minted":{"grant":"grant_41m7r620vqewbsa19963jhm8j9","digest":"0j70rsd7tdcgmt1bnjaq0najmej374fe9a5c21xtn50qdvc27gap","purpose":"bursar:link","subject":"blob_01m7r620ndejxbdhfpg2g6b64v","payload":{"blob":"blob_01m7r620ndejxbdhfpg2g6b64v","act":"read"},"expires_at":1795639052152703}}}]}]
01a1f061-0382-7f80-8c0b-e5e167506f2b	1795034252164857	3	{"scope:default\\tteam":"tx_01m7r620csf0tb1azz3707j1dy","blob:blob_01m7r620h4evysqjbfjnw3rx09":"tx_01m7r620hsep6bt0fcv9yezmf7"}	[{"id":"cmd_01m7r620w4f85ajp6bd2tf3zd6","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"3e769898c03a58c0c642c2009cadf0dd"},"events":[{"v":1,"e":{"hold.placed":{"hold":"hold_01m7r620w4f85ajp6bd2tf3zd7","charges":[{"scope":"team","amount":500,"balances":[{"window":"lifetime","limit":10000,"remaining":9500}]}],"job":"job_01m7r620w4f85ajp6bd2tf3zd8"}}},{"v":1,"e":{"job.enqueued":{"job":"job_01m7r620w4f85ajp6bd2tf3zd8","spec":{"queue":"media","kind":"cut","blobs":["blob_01m7r620h4evysqjbfjnw3rx09"]},"run_at":1795034252164857,"hold":"hold_01m7r620w4f85ajp6bd2tf3zd7"}}},{"v":3,"e":{"blob.referenced":{"blob":"blob_01m7r620h4evysqjbfjnw3rx09","by":{"job":"job_01m7r620w4f85ajp6bd2tf3zd8"}}}}]}]
01a1f061-039a-7ddb-a16f-cb38d989426d	1795034252185851	1	{"job:job_01m7r620w4f85ajp6bd2tf3zd8":"tx_01m7r620w2fy08r2z5w5kn0vsb"}	[{"id":"cmd_01m7r620wtfqdt2vyb73crjgke","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"37a5c8e0b83bf9c2703a7c4b4f375258"},"events":[{"v":2,"e":{"job.leased":{"job":"job_01m7r620w4f85ajp6bd2tf3zd8","fence":1,"attempt":1,"worker":"crew","lease":43200000000,"owner":"operator"}}}]}]
01a1f061-03ba-7673-aeba-9c112efad570	1795034252223006	3	{"hold:hold_01m7r620w4f85ajp6bd2tf3zd7":"tx_01m7r620w2fy08r2z5w5kn0vsb","scope:default\\tteam":"tx_01m7r620w2fy08r2z5w5kn0vsb","job:job_01m7r620w4f85ajp6bd2tf3zd8":"tx_01m7r620wtfqdt2vyb73crjgkd","blob:blob_01m7r620k3fgga8yfm4e9v5pg4":"tx_01m7r620m6f3qbnky80r5nsymx"}	[{"id":"cmd_01m7r620xzeb2tdjfep09ysyf3","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"761d8f0eb8fed4c71c22a94ee70ee163"},"events":[{"v":2,"e":{"hold.committed":{"hold":"hold_01m7r620w4f85ajp6bd2tf3zd7","charges":[{"scope":"team","amount":500,"actual":320,"balances":[{"window":"lifetime","limit":10000,"remaining":9680}]}]}}},{"v":3,"e":{"job.succeeded":{"job":"job_01m7r620w4f85ajp6bd2tf3zd8","fence":1}}},{"v":3,"e":{"blob.referenced":{"blob":"blob_01m7r620k3fgga8yfm4e9v5pg4","by":{"job":"job_01m7r620w4f85ajp6bd2tf3zd8"}}}}]}]
01a1f061-03ce-7a2b-8eb8-c7fe1ee2f57a	1795034252238601	1	{}	[{"id":"cmd_01m7r620yef8nrxe67zrfe5xbv","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"2cc4fb1b6471e683891371d9d2ad2590"},"events":[{"v":1,"e":{"job.enqueued":{"job":"job_01m7r620yef8nrxe67zrfe5xbx","spec":{"queue":"media","kind":"fails"},"run_at":1795034252238601}}}]}]
01a1f061-03d5-708d-8dc7-23f7f7775c88	1795034252245409	1	{"job:job_01m7r620yef8nrxe67zrfe5xbx":"tx_01m7r620yef8nrxe67zrfe5xbt"}	[{"id":"cmd_01m7r620yne26rvhs3yzvqeq49","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"e8776f2c85c8ca0756dac260d9905d38"},"events":[{"v":2,"e":{"job.leased":{"job":"job_01m7r620yef8nrxe67zrfe5xbx","fence":1,"attempt":1,"worker":"crew","lease":43200000000,"owner":"operator"}}}]}]
01a1f061-03dc-7f86-a9fb-604378220567	1795034252252370	2	{"job:job_01m7r620yef8nrxe67zrfe5xbx":"tx_01m7r620yne26rvhs3yzvqeq48"}	[{"id":"cmd_01m7r620ywfy3akyv08dw241b8","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"7f52dbf028fba86391400524eb21b7d1"},"events":[{"v":3,"e":{"job.failed":{"job":"job_01m7r620yef8nrxe67zrfe5xbx","fence":1,"attempt":1,"worker":"crew","error":{"kind":"codec","message":"frame 0 cannot be decoded"}}}},{"v":4,"e":{"job.dead_lettered":{"job":"job_01m7r620yef8nrxe67zrfe5xbx"}}}]}]
01a1f061-03ea-76f0-982d-83dfaba2d335	1795034252266155	1	{}	[{"id":"cmd_01m7r620zaevr9gbc3vynt5msp","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"b717f38121dec5591e7ff8083500b1d7"},"events":[{"v":1,"e":{"job.enqueued":{"job":"job_01m7r620zaevr9gbc3vynt5msr","spec":{"queue":"media","kind":"fails"},"run_at":1795034252266155}}}]}]
01a1f061-03f1-7307-bbbd-83418f42dd30	1795034252273327	1	{"job:job_01m7r620zaevr9gbc3vynt5msr":"tx_01m7r620zaevr9gbc3vynt5msn"}	[{"id":"cmd_01m7r620zkfgrshkxadwxjjy1t","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"cfd1c1c3520d20c98cae17a01c3ac7df"},"events":[{"v":2,"e":{"job.leased":{"job":"job_01m7r620zaevr9gbc3vynt5msr","fence":1,"attempt":1,"worker":"crew","lease":43200000000,"owner":"operator"}}}]}]
01a1f061-045a-7d80-8300-35d3ec6595bb	1795034252379150	1	{"hold:hold_01m7r6212aea8vyg81nkjfhmya":"tx_01m7r6212aea8vyg81nkjfhmy8","scope:default\\tteam":"tx_01m7r6212ge5yvm4d6ywxk93y6"}	[{"id":"cmd_01m7r6212vfnx8q2p6wg6ca2ed","context":{"tenant":"default","actor":"system"},"events":[{"v":2,"e":{"hold.expired":{"hold":"hold_01m7r6212aea8vyg81nkjfhmya","at":1795034252363636,"scopes":["team"],"charged":80}}}]}]
01a1f061-04ca-7b73-8a8a-3a66b6e540d4	1795034252499595	1	{"hold:hold_01m7r6212hfhs8c1bxtv6mp25j":"tx_01m7r6212ge5yvm4d6ywxk93y6","scope:default\\tteam":"tx_01m7r6212tfp08601ntfp6b5dv"}	[{"id":"cmd_01m7r6216kf14sgvb20crer2jz","context":{"tenant":"default","actor":"system"},"events":[{"v":2,"e":{"hold.expired":{"hold":"hold_01m7r6212hfhs8c1bxtv6mp25j","at":1795034252370505,"scopes":["team"],"charged":40}}}]}]
01a1f061-052c-73a0-96f8-38815b63b754	1795034252590381	1	{"hold:hold_01m7r6212hfhs8c1bxtv6mp25j":"tx_01m7r6216afdsrn2htctveag6m","scope:default\\tteam":"tx_01m7r6216afdsrn2htctveag6m"}	[{"id":"cmd_01m7r6219eee3aacegpnnwpn7p","context":{"tenant":"default","actor":{"user":"operator"},"correlation_id":"99d907e7390c961fb15b0c25e3859251"},"events":[{"v":3,"e":{"hold.committed":{"hold":"hold_01m7r6212hfhs8c1bxtv6mp25j","charges":[{"scope":"team","amount":50,"actual":25,"balances":[{"window":"lifetime","limit":10000,"remaining":8875}]}],"late":true}}}]}]
\.


--
-- Data for Name: journal_new; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.journal_new (seq, id, count) FROM stdin;
\.


--
-- Data for Name: journal_order; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.journal_order ("position", id, count) FROM stdin;
1	01a1f061-00dd-75d2-94ee-6c2314176688	1
2	01a1f061-0135-76cf-8d05-3e0d5a0ae386	1
3	01a1f061-012f-7a65-8e69-9ed09c402041	1
4	01a1f061-0199-7834-b0ab-ff19c07905be	1
5	01a1f061-01c8-7092-8346-2581af86b3b6	1
6	01a1f061-01fd-70a8-8d2e-62a24923808a	1
7	01a1f061-0222-79d8-81f1-74bf8e8628b2	2
9	01a1f061-0239-758c-bd01-ecda7cefd1e7	2
11	01a1f061-025f-74d2-991d-8aee47927ec9	2
13	01a1f061-0286-78ee-bacf-c8060b5cfa9d	2
15	01a1f061-02a8-7d5d-b951-785cfe7f19d5	2
17	01a1f061-02ce-7e60-a144-2c5e8082b57d	2
19	01a1f061-02e4-72dd-a2fb-3a639d554468	1
20	01a1f061-02ef-7dce-89f2-9ed5660210f7	2
22	01a1f061-02fc-74f2-bfa9-c731777172e3	2
24	01a1f061-031c-7968-ab0a-e3c932fb3e97	1
25	01a1f061-0343-798c-b228-23a37cdc95d3	1
26	01a1f061-034f-78c4-a330-74513108f5a8	1
27	01a1f061-036a-7059-ac7f-9508e649e822	2
29	01a1f061-0371-72d8-9d67-7242f87ce722	1
30	01a1f061-0379-70c6-8a19-1748931be365	1
31	01a1f061-0382-7f80-8c0b-e5e167506f2b	3
34	01a1f061-039a-7ddb-a16f-cb38d989426d	1
35	01a1f061-03ba-7673-aeba-9c112efad570	3
38	01a1f061-03ce-7a2b-8eb8-c7fe1ee2f57a	1
39	01a1f061-03d5-708d-8dc7-23f7f7775c88	1
40	01a1f061-03dc-7f86-a9fb-604378220567	2
42	01a1f061-03ea-76f0-982d-83dfaba2d335	1
43	01a1f061-03f1-7307-bbbd-83418f42dd30	1
44	01a1f061-03fc-7b81-bce5-f4b76e2ddc63	2
46	01a1f061-0414-71ef-b9aa-c4de8808a423	1
47	01a1f061-0421-72dd-8301-fc506d779707	1
48	01a1f061-043a-7324-92fa-a4376bd30df5	2
50	01a1f061-0442-7244-8c0f-8ad5722591a7	1
51	01a1f061-044a-7291-bf41-01ace4f8d3c8	1
52	01a1f061-0450-717d-ba11-a6f73b348fc6	1
53	01a1f061-045a-7d80-8300-35d3ec6595bb	1
54	01a1f061-04ca-7b73-8a8a-3a66b6e540d4	1
55	01a1f061-052c-73a0-96f8-38815b63b754	1
\.


--
-- Data for Name: keys; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.keys (tenant, key, fingerprint, batch, command, until) FROM stdin;
\.


--
-- Data for Name: live_charges; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.live_charges (tenant, scope, expires_at, hold, placed_at, amount, on_expiry) FROM stdin;
\.


--
-- Data for Name: meta; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.meta (key, value) FROM stdin;
schema	4
\.


--
-- Data for Name: namespaces; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.namespaces (tenant, namespace, data) FROM stdin;
default	media	{"config":{"bytes_max":500,"charge":"disk","grace":86400000000},"version":1,"last":"tx_01m7r620e8e2986hh5g6qrdcxp"}
default	brief	{"config":{"bytes_max":5497558138880,"grace":604800000000,"unreferenced":86400000000},"version":1,"last":"tx_01m7r620fxe2m8tbk2m94j704a"}
\.


--
-- Data for Name: payloads; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.payloads (id, data) FROM stdin;
\.


--
-- Data for Name: postings; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.postings (tenant, scope, at, seq, amount, hold) FROM stdin;
default	disk	1795034251812842	1	100	01a1f061-0224-76fd-9bc9-6f95783c7408
default	disk	1795034251875935	2	40	01a1f061-0263-7c20-a479-f42393b2da03
default	disk	1795034251949468	3	30	01a1f061-02ad-74ba-b6c5-f680a065989a
default	disk	1795034252016150	4	20	01a1f061-02f0-79ea-b7c4-ce8bfca45aa3
default	team	1795034252164857	1	320	01a1f061-0384-7a0a-a958-cb68b4f1fda7
default	team	1795034252363636	2	80	01a1f061-044a-7291-bf41-01ace4f8d3ca
default	team	1795034252370505	3	40	01a1f061-0451-7c72-8605-7dd6cd4b08b2
default	team	1795034252370505	4	-15	01a1f061-0451-7c72-8605-7dd6cd4b08b2
\.


--
-- Data for Name: queues; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.queues (tenant, queue, data) FROM stdin;
\.


--
-- Data for Name: rollups; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.rollups (tenant, scope, amount) FROM stdin;
\.


--
-- Data for Name: schedules; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.schedules (tenant, name, next_at, data) FROM stdin;
\.


--
-- Data for Name: scopes; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.scopes (tenant, scope, version, state, budget) FROM stdin;
default	team	9	\\x0109dcf4e1afdfa4b006011001a1f061052c73a096f838815b63b754048e079e90c8afdfa4b00610ffffffffffffffffffffffffffffffff9491afa3cfbbb1060001000100d206f80a01000000020000a292f3aedfa4b0060000019491afa3cfbbb1061001a1f061044272448c0f8ad5722591a99491c5afdfa4b006f80a00000001b009	{"unit":"","parent":null,"limits":[{"amount":10000,"window":"lifetime"}],"hold":{"ttl_min":1000,"ttl":null,"ttl_max":2592000000000,"life_max":null,"late":"charge","overrun":"charge"},"trip":null,"thresholds":[]}
default	disk	10	\\x010af68aabafdfa4b006011001a1f061036a7059ac7f9508e649e82204fc020100d68fa098faa4b0060001000100fc02780100000002000086e3e9aedfa4b006000001f69ac898faa4b0061001a1f061036d79b6b5d36f3b1e5b7ec9f68aabafdfa4b00678000000	{"unit":"byte","parent":null,"limits":[{"amount":1000,"window":"lifetime"}],"hold":{"ttl_min":5000000,"ttl":null,"ttl_max":null,"life_max":null,"late":"charge","overrun":"charge"},"trip":null,"thresholds":[]}
\.


--
-- Data for Name: tallies; Type: TABLE DATA; Schema: bursar; Owner: -
--

COPY bursar.tallies (tenant, queue, what, minute, lane, count) FROM stdin;
default	media	4	0	47	1
default	media	14	29917237	47	1
default	media	6	0	47	1
default	media	16	29917237	47	1
default	media	21	29917237	47	1
default	media	20	29917237	47	3
default	media	1	0	47	0
default	media	3	0	47	1
default	media	20	29917237	46	1
default	media	1	0	46	0
default	media	3	0	46	-1
default	media	6	0	46	2
default	media	16	29917237	46	2
default	media	21	29917237	46	2
\.


--
-- Name: journal_new_seq_seq; Type: SEQUENCE SET; Schema: bursar; Owner: -
--

SELECT pg_catalog.setval('bursar.journal_new_seq_seq', 39, true);


--
-- Name: blob_digests blob_digests_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.blob_digests
    ADD CONSTRAINT blob_digests_pkey PRIMARY KEY (tenant, namespace, digest);


--
-- Name: blobs blobs_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (id);


--
-- Name: costs costs_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.costs
    ADD CONSTRAINT costs_pkey PRIMARY KEY (tenant, day, queue, kind, scope, lane);


--
-- Name: dead_groups dead_groups_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.dead_groups
    ADD CONSTRAINT dead_groups_pkey PRIMARY KEY (tenant, queue, kind, fingerprint, lane);


--
-- Name: ended_jobs ended_jobs_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.ended_jobs
    ADD CONSTRAINT ended_jobs_pkey PRIMARY KEY (id);


--
-- Name: grants grants_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (id);


--
-- Name: held held_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (tenant, queue, kind, unit, lane);


--
-- Name: holds holds_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (id);


--
-- Name: job_keys job_keys_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.job_keys
    ADD CONSTRAINT job_keys_pkey PRIMARY KEY (tenant, queue, key);


--
-- Name: jobs jobs_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);


--
-- Name: journal_new journal_new_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.journal_new
    ADD CONSTRAINT journal_new_pkey PRIMARY KEY (seq);


--
-- Name: journal_order journal_order_id_key; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.journal_order
    ADD CONSTRAINT journal_order_id_key UNIQUE (id);


--
-- Name: journal_order journal_order_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.journal_order
    ADD CONSTRAINT journal_order_pkey PRIMARY KEY ("position");


--
-- Name: journal journal_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (id);


--
-- Name: keys keys_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (tenant, key);


--
-- Name: live_charges live_charges_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.live_charges
    ADD CONSTRAINT live_charges_pkey PRIMARY KEY (tenant, scope, expires_at, hold);


--
-- Name: meta meta_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);


--
-- Name: namespaces namespaces_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.namespaces
    ADD CONSTRAINT namespaces_pkey PRIMARY KEY (tenant, namespace);


--
-- Name: payloads payloads_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.payloads
    ADD CONSTRAINT payloads_pkey PRIMARY KEY (id);


--
-- Name: postings postings_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.postings
    ADD CONSTRAINT postings_pkey PRIMARY KEY (tenant, scope, at, seq);


--
-- Name: queues queues_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (tenant, queue);


--
-- Name: rollups rollups_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.rollups
    ADD CONSTRAINT rollups_pkey PRIMARY KEY (tenant, scope);


--
-- Name: schedules schedules_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (tenant, name);


--
-- Name: scopes scopes_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.scopes
    ADD CONSTRAINT scopes_pkey PRIMARY KEY (tenant, scope);


--
-- Name: tallies tallies_pkey; Type: CONSTRAINT; Schema: bursar; Owner: -
--

ALTER TABLE ONLY bursar.tallies
    ADD CONSTRAINT tallies_pkey PRIMARY KEY (tenant, queue, what, minute, lane);


--
-- Name: blobs_due; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX blobs_due ON bursar.blobs USING btree (at, id) WHERE (at < '9223372036854775807'::bigint);


--
-- Name: blobs_names; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX blobs_names ON bursar.blobs USING btree (tenant, namespace, id);


--
-- Name: blobs_tenants; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX blobs_tenants ON bursar.blobs USING btree (tenant, id);


--
-- Name: ended_jobs_at; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX ended_jobs_at ON bursar.ended_jobs USING btree (tenant, queue, state, at);


--
-- Name: ended_jobs_dead; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX ended_jobs_dead ON bursar.ended_jobs USING btree (tenant, queue, kind, fingerprint, at, id) WHERE (fingerprint IS NOT NULL);


--
-- Name: holds_due; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX holds_due ON bursar.holds USING btree (expires_at, id) WHERE ((state = 0) AND (expires_at < '9223372036854775807'::bigint));


--
-- Name: jobs_awaits; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX jobs_awaits ON bursar.jobs USING btree (tenant, awaits, id) WHERE (state = 5);


--
-- Name: jobs_due; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX jobs_due ON bursar.jobs USING btree (tenant, queue, at) WHERE (state = ANY (ARRAY[3, 4]));


--
-- Name: jobs_lapse; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX jobs_lapse ON bursar.jobs USING btree (at) WHERE (state = 6);


--
-- Name: jobs_lines; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX jobs_lines ON bursar.jobs USING btree (tenant, queue, flow, state, kind, rank, id) WHERE (state = ANY (ARRAY[1, 2]));


--
-- Name: jobs_look; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX jobs_look ON bursar.jobs USING btree (at) WHERE (state = 5);


--
-- Name: jobs_ready; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX jobs_ready ON bursar.jobs USING btree (tenant, queue, kind, rank, id) WHERE (state = 0);


--
-- Name: jobs_waiting; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX jobs_waiting ON bursar.jobs USING btree (tenant, queue, at) WHERE ((state < 3) AND ((state > 0) OR (rank <> at)));


--
-- Name: keys_until; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX keys_until ON bursar.keys USING btree (until);


--
-- Name: schedules_due; Type: INDEX; Schema: bursar; Owner: -
--

CREATE INDEX schedules_due ON bursar.schedules USING btree (next_at);


--
-- PostgreSQL database dump complete
--


