package kubelets

import (
	"encoding/base64"
	"net/url"

	"github.com/gorilla/websocket"
)

// rawExec returns the path of a request to run a script, with further parameters.
func (r *streamRun) rawExec(script, more string) string {
	q, err := url.ParseQuery("stdout=true&stderr=true&" + more)
	if err != nil {
		panic(err) // more is a constant
	}
	q["command"] = r.marked(script)
	return podPath(r.shell(), "exec", q)
}

// rawCases are WebSockets without a client library: older subprotocols, and frames that no library
// sends.
func rawCases() []StreamCase {
	var l caseList
	for name, protocols := range map[string][]string{
		"none": nil, "v1": {"channel.k8s.io"}, "v1-base64": {"base64.channel.k8s.io"}, "v2": {"v2.channel.k8s.io"}, "v3": {"v3.channel.k8s.io"},
		"v4": {"v4.channel.k8s.io"}, "v4-base64": {"v4.base64.channel.k8s.io"}, "v5": {"v5.channel.k8s.io"}, "v5-base64": {"v5.base64.channel.k8s.io"},
		"unknown": {"v9.channel.k8s.io"}, "v1-v4": {"channel.k8s.io", "v4.channel.k8s.io"}, "v4-v5": {"v4.channel.k8s.io", "v5.channel.k8s.io"},
		"unknown-v4": {"v9.channel.k8s.io", "v4.channel.k8s.io"},
	} {
		l = append(l, StreamCase{"exec/raw-" + name, func(r *streamRun) error { return rawProtocols(r, protocols) }})
	}
	l.frames("close", "cat; echo after", []byte("\x00hello\n"), []byte{255, 0})
	l.frames("close-twice", "cat; sleep 1; echo after", []byte("\x00hello\n"), []byte{255, 0}, []byte{255, 0})
	l.frames("data-after-close", "cat; sleep 1; echo after", []byte("\x00hello\n"), []byte{255, 0}, []byte("\x00more\n"))
	l.frames("close-stdout", "cat; echo after", []byte{255, 1}, []byte("\x00hello\n"), []byte{255, 0})
	// Messages behind these could take the close frame with them.
	l.frames("close-unknown", "cat; echo after", []byte{255, 9})
	l.frames("close-none", "cat; echo after", []byte{255})
	l.frames("close-long", "cat; echo after", []byte{255, 0, 0})
	l.frames("empty", "cat; echo after", nil, []byte{0}, []byte("\x00hello\n"), []byte{255, 0})
	l.frames("other-channels", "cat; echo after", []byte("\x01a"), []byte("\x02b"), []byte("\x03c"), []byte("\x09d"), []byte("\x00hello\n"), []byte{255, 0})
	l.frames("resize-without-terminal", "cat; echo after", []byte("\x04{\"Width\": 10, \"Height\": 10}"), []byte("\x00hello\n"), []byte{255, 0})
	return append(l,
		StreamCase{"exec/frames-text", framesAsText},
		StreamCase{"exec/frames-bad-size", framesWithBadSize},
		StreamCase{"exec/frames-client-closes", framesOfClosingClient},
		StreamCase{"exec/frames-ping", framesWithPing},
	)
}

// rawProtocols runs commands for a client that offers protocols.
func rawProtocols(r *streamRun, protocols []string) error {
	for _, code := range []string{"0", "3"} {
		conn, ok := r.dial(r.config, r.rawExec("read x; echo $x; echo err >&2; exit "+code, "stdin=true"), protocols...)
		if !ok {
			return nil
		}
		m := collect(conn, soon)
		send := func(channel byte, data string) error {
			if p := conn.Subprotocol(); p == "base64.channel.k8s.io" || p == "v4.base64.channel.k8s.io" {
				return conn.WriteMessage(websocket.TextMessage, append([]byte{'0' + channel}, base64.StdEncoding.EncodeToString([]byte(data))...))
			}
			return conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...))
		}
		if err := send(0, "hello\n"); err != nil {
			return err
		}
		r.sayMessages(m)
		conn.Close()
	}
	return nil
}

// frames adds a command that is sent messages in version 5.
func (l *caseList) frames(name, script string, messages ...[]byte) {
	*l = append(*l, StreamCase{"exec/frames-" + name, func(r *streamRun) error {
		conn, ok := r.dial(r.config, r.rawExec(script, "stdin=true"), "v5.channel.k8s.io")
		if !ok {
			return nil
		}
		defer conn.Close()
		m := collect(conn, soon/2)
		r.await(soon, m.any) // the first message says that the command runs
		for _, message := range messages {
			_ = conn.WriteMessage(websocket.BinaryMessage, message) // the connection may have ended
		}
		r.sayMessages(m)
		return nil
	}})
}

func framesAsText(r *streamRun) error {
	conn, ok := r.dial(r.config, r.rawExec("cat; echo after", "stdin=true"), "v5.channel.k8s.io")
	if !ok {
		return nil
	}
	defer conn.Close()
	m := collect(conn, soon/2)
	for _, message := range []string{"\x00hello\n", "\xff\x00"} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			r.say("write failed")
		}
	}
	r.sayMessages(m)
	return nil
}

func framesWithBadSize(r *streamRun) error {
	conn, ok := r.dial(r.config, r.rawExec("read x; echo got $x", "stdin=true&tty=true"), "v5.channel.k8s.io")
	if !ok {
		return nil
	}
	defer conn.Close()
	m := collect(conn, soon/2)
	for _, message := range []string{"\x04none", "\x04{}", "\x04{\"Width\":90,\"Height\":20}"} {
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte(message)); err != nil {
			r.say("write failed")
		}
	}
	r.await(shortly, func() bool { return false })
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte("\x00hello\n")); err != nil {
		r.say("write failed")
	}
	r.sayMessages(m)
	return nil
}

func framesOfClosingClient(r *streamRun) error {
	conn, ok := r.dial(r.config, r.rawExec("echo ready; cat; echo after; sleep 1000", "stdin=true"), "v5.channel.k8s.io")
	if !ok {
		return nil
	}
	defer conn.Close()
	m := collect(conn, soon)
	r.await(soon, m.has(1, "ready"))
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if err := conn.WriteMessage(websocket.CloseMessage, message); err != nil {
		r.say("write failed")
	}
	r.sayMessages(m)
	r.withinTime(shortly, "the process has ended", r.ended)
	return nil
}

func framesWithPing(r *streamRun) error {
	conn, ok := r.dial(r.config, r.rawExec("cat", "stdin=true"), "v5.channel.k8s.io")
	if !ok {
		return nil
	}
	defer conn.Close()
	pongs := make(chan string, 1)
	conn.SetPongHandler(func(text string) error { pongs <- text; return nil })
	m := collect(conn, soon)
	if err := conn.WriteMessage(websocket.PingMessage, []byte("ping")); err != nil {
		return err
	}
	select {
	case text := <-pongs:
		r.say("pong %q", text)
	case <-m.done:
		r.say("no pong")
	}
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte{255, 0}); err != nil {
		return err
	}
	r.sayMessages(m)
	return nil
}
