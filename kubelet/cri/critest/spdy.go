package critest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/moby/spdystream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The protocols of streams (k8s.io/apimachinery/pkg/util/remotecommand and
// k8s.io/kubelet/pkg/cri/streaming/portforward).
const (
	commandProtocol = "v4.channel.k8s.io"
	forwardProtocol = "portforward.k8s.io"
)

// A client is an SPDY connection to a runtime.
type client struct {
	env  *env
	conn *spdystream.Connection
	raw  net.Conn
	done chan struct{} // closed when nothing more is received
}

// dial upgrades a connection to the URL. It returns the code of the response if the runtime refuses.
func (e *env) dial(address, protocol string) (*client, int) {
	e.Helper()
	to, err := url.Parse(address)
	if err != nil || to.Scheme != "http" {
		e.Fatalf("the URL is %q: %v", address, err)
	}
	raw, err := new(net.Dialer).DialContext(e.ctx, "tcp", to.Host)
	e.succeeds(err, "connect to the URL")
	stop := context.AfterFunc(e.ctx, func() { raw.Close() }) // so that no read waits for ever
	fmt.Fprintf(raw, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: %s\r\nContent-Length: 0\r\n\r\n", to.RequestURI(), to.Host, protocol)
	in := bufio.NewReader(raw)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		stop()
		raw.Close()
		e.succeeds(err, "upgrade the connection")
		return nil, answer.StatusCode
	}
	if got := answer.Header.Get("X-Stream-Protocol-Version"); got != protocol {
		e.Errorf("the protocol is %q, want %q", got, protocol)
	}
	conn, err := spdystream.NewConnection(buffered{raw, in}, false)
	e.succeeds(err, "begin SPDY")
	c := &client{env: e, conn: conn, raw: raw, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer stop()
		conn.Serve(func(s *spdystream.Stream) { s.Reset() })
	}()
	return c, http.StatusSwitchingProtocols
}

// buffered is a connection whose first bytes may be in a buffer. It can be closed again.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

// Close implements net.Conn.
func (b buffered) Close() error {
	b.Conn.Close()
	return nil
}

// open opens a stream and waits until the runtime has accepted it.
func (c *client) open(headers http.Header) *spdystream.Stream {
	c.env.Helper()
	s, err := c.conn.CreateStream(headers, nil, false)
	if err == nil {
		err = s.WaitTimeout(limit)
	}
	c.env.succeeds(err, "open a stream "+headers.Get(corev1.StreamType))
	return s
}

func (c *client) close() {
	c.raw.Close()
	<-c.done
}

// command is a program and its streams.
type command struct {
	*client
	stdin, stdout, stderr, status *spdystream.Stream
}

// command connects to the streams of a URL.
func (e *env) command(address string, stdin, stderr, tty bool) *command {
	e.Helper()
	client, code := e.dial(address, commandProtocol)
	if client == nil {
		e.Fatalf("the runtime answers %d", code)
	}
	open := func(kind string) *spdystream.Stream { return client.open(http.Header{corev1.StreamType: {kind}}) }
	c := &command{client: client, status: open(corev1.StreamTypeError)}
	if stdin {
		c.stdin = open(corev1.StreamTypeStdin)
	}
	c.stdout = open(corev1.StreamTypeStdout)
	if stderr {
		c.stderr = open(corev1.StreamTypeStderr)
	}
	if tty {
		open(corev1.StreamTypeResize)
	}
	return c
}

// end reads what is left of the outputs and returns it with the exit code.
func (c *command) end() (stdout, stderr string, code string) {
	c.env.Helper()
	defer c.close()
	errors := make(chan []byte, 1)
	go func() { errors <- c.read(c.stderr) }()
	stdout, stderr = string(c.read(c.stdout)), string(<-errors)
	var status metav1.Status
	text := c.read(c.status)
	if err := json.Unmarshal(text, &status); err != nil {
		c.env.Fatalf("the status %q: %v", text, err)
	}
	if status.Status == metav1.StatusSuccess {
		return stdout, stderr, "0"
	}
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == "ExitCode" {
				code = cause.Message
			}
		}
	}
	return stdout, stderr, code
}

// read reads a stream to its end. It may be nil.
func (c *command) read(s *spdystream.Stream) []byte {
	if s == nil {
		return nil
	}
	text, err := io.ReadAll(s)
	if err != nil || c.env.ctx.Err() != nil {
		c.env.Errorf("read a stream: %v, %v", err, c.env.ctx.Err())
	}
	return text
}

// want reads text from the output.
func (c *command) want(text string) {
	c.env.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c.stdout, got); err != nil || string(got) != text {
		c.env.Fatalf("the output is %q, want %q: %v", got[:n], text, err)
	}
}
