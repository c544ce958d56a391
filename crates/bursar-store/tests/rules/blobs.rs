//! Blobs: uploads, references, what workers reach, deletion and collection; and the lines of stories about them.
//!
//! | line | meaning |
//! | --- | --- |
//! | `space media charge=disk grace=5s unreferenced=9s most=100` | defines the rules of a namespace |
//! | `start x media 10 bytes=a` | begins the upload `x` with this length and content; both are optional |
//! | `grow x 20`, `store x 10 a`, `abandon x` | continues, ends and gives up an upload |
//! | `refer x by`, `unrefer x by`, `delete x`, `undelete x` | references of the application; deletion |
//! | `doom x y`, `collect x y` | the collection |
//! | `blob x` | a read |

use bursar_core::answer::BlobAnswer;
use bursar_core::blob::{BlobSpec, NamespaceConfig, Sha256Digest};
use bursar_core::id::BlobId;
use bursar_core::name::{Backend, Namespace, Referrer, Tenant};
use bursar_core::request::{BlobOp, Op};
use bursar_core::time::Span;
use bursar_store::prelude::*;
use futures_util::FutureExt;

use crate::story::{World, scope, story};
use crate::work::Words;

fn digest(content: &str) -> Sha256Digest {
    Sha256Digest([content.as_bytes()[0]; 32])
}

impl World {
    /// Parses a line about blobs; `None` if it is about something else.
    pub(crate) fn blob_op(&self, verb: &str, words: &[&str]) -> Option<Op> {
        let said = Words(words);
        let named = || self.blobs_named(words.first().copied())[0];
        let listed = || words.iter().flat_map(|name| self.blobs_named(Some(name))).collect();
        let by = || Referrer::new(words[1]).unwrap();
        let ttl = said.span("ttl").unwrap_or(Span::from_secs(60));
        Some(Op::Blob(match verb {
            "space" => BlobOp::DefineNamespace {
                namespace: Namespace::new(words[0]).unwrap(),
                config: NamespaceConfig {
                    bytes_max: said.number("most").unwrap_or(1_000),
                    charge: said.value("charge").map(scope),
                    grace: said.span("grace").unwrap_or(Span::from_secs(10)),
                    unreferenced: said.span("unreferenced"),
                },
            },
            "start" => {
                let spec = BlobSpec::new(Namespace::new(words[1]).unwrap(), Backend::new("local").unwrap());
                let size = words.get(2).and_then(|size| size.parse().ok());
                BlobOp::Start { spec: BlobSpec { size, digest: said.value("bytes").map(digest), ..spec }, ttl }
            }
            "grow" => BlobOp::Grow { blob: named(), size: words[1].parse().unwrap(), ttl },
            "store" => BlobOp::Store { blob: named(), size: words[1].parse().unwrap(), digest: digest(words[2]) },
            "abandon" => BlobOp::Abandon { blob: named() },
            "refer" => BlobOp::Reference { blob: named(), by: by() },
            "unrefer" => BlobOp::Release { blob: named(), by: by() },
            "delete" => BlobOp::Delete { blob: named() },
            "undelete" => BlobOp::Restore { blob: named() },
            "doom" => BlobOp::Doom { blobs: listed() },
            "collect" => BlobOp::Collect { blobs: listed() },
            _ => return None,
        }))
    }

    /// Returns the blobs of a list of names; an unknown name is that of no blob.
    pub(crate) fn blobs_named(&self, names: Option<&str>) -> Vec<BlobId> {
        let names = names.into_iter().flat_map(|names| names.split(','));
        names.map(|name| self.blobs.get(name).copied().unwrap_or(BlobId(u128::MAX))).collect()
    }

    /// Formats the answer to an upload, and names a new blob after its line.
    pub(crate) fn uploaded(&mut self, line: &str, answer: &BlobAnswer) -> String {
        let name = line.split_whitespace().nth(1).unwrap().to_owned();
        if answer.found {
            let known = self.blobs.iter().find(|(_, id)| **id == answer.blob).unwrap();
            return format!("found {}", known.0);
        }
        self.blobs.entry(name.clone()).or_insert(answer.blob);
        name
    }

    pub(crate) fn blob_words(&self, name: &str) -> String {
        let blob = self.store.blob(&Tenant::built_in(), self.blobs[name]).now_or_never().unwrap().unwrap();
        let Some(blob) = blob else { return "gone".to_owned() };
        let deleted = if blob.deleted_at.is_some() { ", deleted" } else { "" };
        format!("{}{deleted}, {} jobs, {} names", blob.state, blob.jobs, blob.references.len())
    }
}

#[test]
fn a_worker_names_only_blobs_of_namespaces_it_reaches() {
    story(
        "start x media 10                          => x
         store x 10 a                              => x
         start y files 10                          => y
         store y 10 b                              => y
         start z files 10                          => z
         store z 10 c                              => z
         enqueue a uses=z                          => a
         enqueue b                                 => b
         lease 2 as=p:media                        => a#1 b#1
         complete a#1 makes=x,y as=p:media         => there is no blob y
         job a                                     => leased, attempt 1
         blob x                                    => live, 0 jobs, 0 names
         complete a#1 makes=x,unknown as=p:media   => there is no blob blob_7zzzzzzzzzzzzzzzzzzzzzzzzz
         complete a#1 makes=x,z as=p:media         => succeeded
         blob x                                    => live, 1 jobs, 0 names
         blob y                                    => live, 0 jobs, 0 names
         blob z                                    => live, 1 jobs, 0 names
         complete b#1 makes=y                      => succeeded
         blob y                                    => live, 1 jobs, 0 names",
    );
}

#[test]
fn a_worker_that_lost_its_lease_makes_no_reference() {
    story(
        "start x media 10                     => x
         store x 10 a                         => x
         enqueue a retry=0s                   => a
         lease 1 for=5s                       => a#1
         after 6s                             =>
         rescue a                             => queued
         complete a#1 makes=x                 => lease 1 of a is no longer current: the job is now queued
         blob x                               => live, 0 jobs, 0 names",
    );
}

#[test]
fn a_reference_keeps_a_blob_and_a_doomed_blob_gets_none() {
    story(
        "space media grace=5s        => done
         start x media 10            => x
         refer x post:1              => there is no blob x
         store x 10 a                => x
         refer x post:1              => done
         delete x                    => done
         after 6s                    =>
         doom x                      => swept 0
         collect x                   => swept 0
         unrefer x post:1            => done
         undelete x                  => done
         delete x                    => done
         doom x                      => swept 0
         after 6s                    =>
         doom x                      => swept 1
         refer x post:2              => there is no blob x
         undelete x                  => there is no blob x
         collect x                   => swept 1
         + collect x                 => swept 0
         blob x                      => gone",
    );
}

#[test]
fn a_repeated_request_about_an_upload_gets_its_first_answer() {
    story(
        "define disk 100/lifetime    => done
         space media charge=disk     => done
         start x media 10            => x
         grow x 10 key=g             => done
         grow x 10 key=g             => again: done
         start y media               => y
         grow y 30 key=h             => done
         grow y 30 key=h             => again: done
         abandon x key=a             => swept 1
         abandon x key=a             => again: swept 1
         abandon x                   => swept 0
         held disk                   => 30",
    );
}

#[test]
fn the_same_bytes_are_found_within_a_namespace_only() {
    story(
        "start x media 10 bytes=a    => x
         store x 10 a                => x
         start y media 10 bytes=a    => found x
         start y files 10 bytes=a    => y
         store y 10 a                => y
         start z media               => z
         store z 10 a                => found x
         blob z                      => doomed, 0 jobs, 0 names
         start w media tenant=other bytes=a => w
         delete x                    => done
         start v media 10 bytes=a    => v",
    );
}
