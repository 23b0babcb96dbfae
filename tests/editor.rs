//! What an editor knows inside the braces of `moe_model!`: rust-analyzer, asked as an editor asks it, over a crate that
//! uses the macro. Every wait has an end, and the server goes with the test.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// How long the server may take to load the crate, the macro's build included; then for any one answer.
const TO_LOAD: Duration = Duration::from_mins(1);
const TO_ANSWER: Duration = Duration::from_secs(15);

/// The file that is edited, which compiles as it is.
const FILE: &str = include_str!("editor/small.rs");
#[path = "editor/small.rs"]
#[allow(dead_code)]
mod small;

/// One server, for it takes seconds to start.
#[test]
fn editors_know_the_declaration() {
    let Ok(version) = Command::new("rust-analyzer").arg("--version").output() else {
        return skip("rust-analyzer is not installed");
    };
    if !version.status.success() {
        return skip(&String::from_utf8_lossy(&version.stderr));
    }
    let mut editor = Editor::start();
    keys_are_offered(&mut editor);
    values_are_offered(&mut editor);
    words_are_explained(&mut editor);
    errors_leave_the_rest(&mut editor);
}

/// Straight to standard error: the test harness swallows what a passing test prints.
fn skip(why: &str) {
    let line = format!("SKIPPED editor test: {}\n", why.trim());
    io::stderr().write_all(line.as_bytes()).expect("standard error is open");
}

/// The keys that are missing, and no others, where one is being typed or may be.
fn keys_are_offered(editor: &mut Editor) {
    for (from, to, offered) in [
        ("    /// One node.", "    │\n    /// One node.", TOP_LACKS),
        ("    /// One node.", "    mt│\n    /// One node.", TOP_LACKS),
        (
            "    vocab: 102_400,",
            "    vo│",
            "vocab head_bias hyper_connections layer_scalar mixer mtp norm norms_per_layer positions tied_embeddings",
        ),
        ("    hidden: 2048,", "    hidden: 2048, │", TOP_LACKS),
        ("..Node },", "..Node },\n    m│", TOP_LACKS),
        ("active_groups: 1 }", "active_groups: 1, │ }", EXPERTS_LACK),
        (
            "groups: 1,",
            "│",
            "groups correction_bias bias hash_layers identity latent router_bias router_scale shared_ffn shared_gate",
        ),
        ("active_groups: 1 }", "active_groups: 1, cor│ }", EXPERTS_LACK),
        ("heads: 16,", "h│", "heads q_rank indexer_heads indexer_dim"),
        ("apart, loss: apart }", "apart, │ }", "list first last loss"),
        (
            "        schedule: gpipe,",
            "        sche│",
            "schedule placement precision recompute_layers recompute_together modules serving target",
        ),
        (
            "        schedule: gpipe,",
            "        │",
            "schedule placement precision recompute_layers recompute_together modules serving target",
        ),
        (
            "        headroom: percent(10),",
            "        headroom: percent(10),\n        pl│",
            "placement precision recompute_layers recompute_together modules serving target",
        ),
        ("..Node }", "z│, ..Node }", WIDE_LACKS),
        ("skew: 1.25", "s│", "load skew"),
    ] {
        assert_eq!(editor.offered(from, to), words(offered), "{to}");
    }
}

const TOP_LACKS: &str =
    "head_bias hyper_connections layer_scalar mixer mtp norm norms_per_layer positions tied_embeddings";
const EXPERTS_LACK: &str =
    "bias correction_bias hash_layers identity latent router_bias router_scale shared_ffn shared_gate";
const WIDE_LACKS: &str = "stages schedule zero placement precision batch recompute recompute_layers recompute_together modules routing serving accounting target device headroom";

const SCHEDULES: &str = "gpipe one_f_one_b interleaved zb_h1 zb_v dual_pipe dual_pipe_v";

/// The words and kinds of a key, and no others; constants of the crate where a number stands.
fn values_are_offered(editor: &mut Editor) {
    for (from, to, offered) in [
        ("mla { heads", "m│ { heads", "compressed gqa mla"),
        ("mla { heads", "mla│ { heads", "compressed gqa mla"),
        ("mla { heads: 16, kv_rank: 512, nope: 128, rope: 64, value: 128 }", "m│", "compressed gqa mla"),
        ("mesh { dp: 8", "me│ { dp: 8", "mesh"),
        ("schedule: gpipe", "schedule: g│", SCHEDULES),
        ("schedule: gpipe", "schedule: gpipe│", SCHEDULES),
        ("schedule: gpipe", "schedule: │", SCHEDULES),
        ("sequence_parallel: on", "sequence_parallel: o│", "off on"),
        ("zero: optimizer", "zero: optimizer│", "none optimizer gradients parameters zero"),
        ("routing: dropless { skew: 1.25 }", "routing: │", "balanced worst dropless capacity"),
        ("headroom: percent(10)", "headroom: p│", "percent"),
        ("..Node", "..N│", "Node Wide"),
    ] {
        assert_eq!(editor.offered(from, to), words(offered), "{to}");
    }
    assert!(editor.offered("tp: TP", "tp: T│").contains("TP"));
}

/// Hover shows the table's comment, and go-to lands in the table, on keys, kinds and words alike.
fn words_are_explained(editor: &mut Editor) {
    for (from, to, text, file) in [
        ("hidden", "hid│den", "Width of the residual stream.", "core/src/spec/architecture.rs"),
        ("dense", "den│se", "Layers with a dense feed-forward network", "core/src/spec/architecture.rs"),
        ("mla {", "ml│a {", "Multi-head latent attention", "core/src/mixers/mla.rs"),
        ("pp:", "p│p:", "Pipeline stages.", "core/src/spec/layout.rs"),
        ("mesh {", "me│sh {", "The mesh of ranks", "core/src/spec/layout.rs"),
        ("gpipe", "gp│ipe", "All forwards, then all backwards", "core/src/spec/layout.rs"),
        ("optimizer", "opt│imizer", "Optimizer state is sharded", "core/src/spec/layout.rs"),
        ("skew", "sk│ew", "Load of the hottest rank", "core/src/spec/layout.rs"),
        ("percent", "per│cent", "Percent on top of an amount", "core/src/spec/values.rs"),
        ("h100", "h│100", "NVIDIA H100", "core/src/device.rs"),
        ("tp: TP", "tp: T│P", "const TP: u64 = 2", "src/lib.rs"),
        ("..Node", "..No│de", "One node.", "src/lib.rs"),
        ("Small::NODE", "Small::NO│DE", "One node.", "src/lib.rs"),
    ] {
        editor.explained(from, to, text, file);
    }
    assert_eq!(editor.problems(), [""; 0], "the file is right");
}

/// One error takes away neither what is known of the rest of the declaration nor the items made of it.
fn errors_leave_the_rest(editor: &mut Editor) {
    for (from, to) in [
        ("hidden: 2048", "hiden: 2048"),
        ("pp: 2", "pp: 64"),
        ("schedule: gpipe", "schedule: gpip"),
        ("schedule: gpipe", "sched"),
        ("schedule: gpipe", "schedule:"),
        ("schedule: gpipe", "schedule: = if ;"),
    ] {
        editor.broken = Some((from, to));
        editor.explained("Small::NODE", "Small::NO│DE", "One node.", "src/lib.rs");
        editor.explained("vocab", "vo│cab", "Rows of the embedding table", "core/src/spec/architecture.rs");
        editor.explained("recompute", "re│compute", "What is computed again", "core/src/spec/layout.rs");
        assert_eq!(editor.offered("recompute: full", "recompute: │"), words("none full selective"), "{to}");
        editor.broken = None;
    }
}

fn words(words: &str) -> BTreeSet<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

/// A file in an editor, and the server that it asks.
struct Editor {
    server: Server,
    uri: String,
    version: u32,
    /// What is replaced in the file beforehand.
    broken: Option<(&'static str, &'static str)>,
}

impl Editor {
    fn start() -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("editor");
        let manifest = format!(
            "[package]\nname = \"edited\"\nedition = \"2024\"\n[dependencies]\nmoe-model = {{ path = {:?} }}\n[workspace]\n",
            env!("CARGO_MANIFEST_DIR")
        );
        fs::create_dir_all(root.join("src")).expect("the target directory is writable");
        for (name, text) in
            [("Cargo.toml", &*manifest), ("Cargo.lock", include_str!("../Cargo.lock")), ("src/lib.rs", FILE)]
        {
            fs::write(root.join(name), text).expect("the target directory is writable");
        }
        let uri = format!("file://{}", root.join("src/lib.rs").display());
        let mut server = Server::start(&root);
        let document = json!({ "uri": uri, "languageId": "rust", "version": 0, "text": FILE });
        server.notify("textDocument/didOpen", &json!({ "textDocument": document }));
        server.wait_until_loaded();
        Self { server, uri, version: 0, broken: None }
    }

    fn write(&mut self, text: &str) {
        self.version += 1;
        let document = json!({ "uri": self.uri, "version": self.version });
        let change = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
        self.server.notify("textDocument/didChange", &change);
    }

    /// Replaces `from` by `to`, and asks at the bar in it.
    fn ask(&mut self, method: &str, from: &str, to: &str) -> Value {
        let file = self.broken.map_or_else(|| FILE.to_owned(), |(from, to)| FILE.replacen(from, to, 1));
        assert!(file.contains(from), "the file has `{from}`");
        let text = file.replacen(from, to, 1);
        let (before, after) = text.split_once('│').expect("a bar stands at the cursor");
        let line = before.matches('\n').count();
        let character = before.lines().last().map_or(0, str::len);
        self.write(&format!("{before}{after}"));
        let position = json!({ "line": line, "character": character });
        self.server.ask(method, &json!({ "textDocument": { "uri": self.uri }, "position": position }))
    }

    fn offered(&mut self, from: &str, to: &str) -> BTreeSet<String> {
        let answer = self.ask("textDocument/completion", from, to);
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|item| item["label"].as_str().map(str::to_owned)).collect()
    }

    /// Demands that hover says `text`, and that go-to has one answer, in `file`.
    fn explained(&mut self, from: &str, to: &str, text: &str, file: &str) {
        let hover = self.ask("textDocument/hover", from, to);
        let said = hover["contents"]["value"].as_str().unwrap_or_default();
        assert!(said.contains(text), "{to}: {hover}");
        let answer = self.ask("textDocument/definition", from, to);
        let places = answer.as_array().cloned().unwrap_or_default();
        let [place] = &places[..] else { panic!("{to}: {answer}") };
        assert!(place["uri"].as_str().is_some_and(|uri| uri.ends_with(file)), "{to}: {answer}");
    }

    /// What the server itself, without the compiler, finds wrong at the tokens of the file. What it finds at the whole
    /// invocation is left out: it does not know the standard library here, so not the types of the items either.
    fn problems(&mut self) -> Vec<String> {
        self.write(FILE);
        let report = self.server.ask("textDocument/diagnostic", &json!({ "textDocument": { "uri": self.uri } }));
        let invocation = FILE.lines().position(|line| line.starts_with("moe_model!"));
        let items = report["items"].as_array().expect("a report has items").iter();
        let items = items.filter(|item| item["range"]["start"]["line"].as_u64() != invocation.map(|line| line as u64));
        items.filter_map(|item| item["message"].as_str().map(str::to_owned)).collect()
    }
}

/// rust-analyzer, over its standard input and output.
struct Server {
    child: Child,
    messages: Receiver<Value>,
    asked: u32,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(root: &Path) -> Self {
        let mut child = Command::new("rust-analyzer")
            .current_dir(root)
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env("CARGO_NET_OFFLINE", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("rust-analyzer starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            while let Some(message) = read_message(&mut output) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut server = Self { child, messages, asked: 0 };
        // Without the standard library, which it would have to be given the source of; the macro's server is then named.
        let options = json!({
            "cargo": { "sysroot": null },
            "procMacro": { "server": macro_server() },
            "checkOnSave": false,
            "cachePriming": { "enable": false },
        });
        let capabilities = json!({
            "experimental": { "serverStatusNotification": true },
            "textDocument": { "hover": { "contentFormat": ["markdown"] }, "diagnostic": {} },
        });
        let uri = format!("file://{}", root.display());
        let hello = json!({
            "processId": null, "rootUri": uri, "capabilities": capabilities, "initializationOptions": options
        });
        server.ask("initialize", &hello);
        server.notify("initialized", &json!({}));
        server
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let input = self.child.stdin.as_mut().expect("its input is piped");
        write!(input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("rust-analyzer reads");
        input.flush().expect("rust-analyzer reads");
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// The answer to a request; asked again where the server was interrupted by its own work.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let end = Instant::now() + TO_ANSWER;
        loop {
            self.asked += 1;
            let id = self.asked;
            self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
            let mut answer = loop {
                let message = self.next(end);
                if message["id"] == id && message["method"].is_null() {
                    break message;
                }
            };
            match answer["error"]["code"].as_i64() {
                None => return answer["result"].take(),
                Some(CANCELLED | MODIFIED) => thread::sleep(Duration::from_millis(100)),
                Some(_) => panic!("{method}: {answer}"),
            }
        }
    }

    /// The next message; the server's own requests are answered with nothing.
    fn next(&mut self, end: Instant) -> Value {
        let left = end.saturating_duration_since(Instant::now());
        let message = self.messages.recv_timeout(left).expect("rust-analyzer answers in time");
        if !message["id"].is_null() && !message["method"].is_null() {
            self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": null }));
        }
        message
    }

    fn wait_until_loaded(&mut self) {
        let end = Instant::now() + TO_LOAD;
        while self.next(end)["params"]["quiescent"] != true {}
    }
}

/// Codes of the protocol: the server gave up on a request, or the file changed under it.
const CANCELLED: i64 = -32802;
const MODIFIED: i64 = -32801;

/// One message: headers, an empty line, and as many bytes as they say.
fn read_message(output: &mut BufReader<ChildStdout>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(("Content-Length", bytes)) = line.split_once(':') {
            length = bytes.trim().parse().ok()?;
        }
    }
    let mut text = vec![0; length];
    output.read_exact(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The program that runs macros for editors; it comes with the compiler.
fn macro_server() -> PathBuf {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().expect("rustc tells its sysroot");
    let sysroot = String::from_utf8(output.stdout).expect("the sysroot is text");
    Path::new(sysroot.trim()).join("libexec/rust-analyzer-proc-macro-srv")
}
