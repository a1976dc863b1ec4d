package kubelets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// ways are the protocols of clients.
var ways = []string{"spdy", "websocket"}

// command is an exec, or an attach.
type command struct {
	way, pod, container string
	attach              bool
	args                []string
	stdin               io.Reader
	tty                 bool
	noStdout, noStderr  bool
	sizes               remotecommand.TerminalSizeQueue
	config              *rest.Config  // nil: that of the run
	limit               time.Duration // zero: soon
}

// outcome is how a command has ended, as the client shows it.
type outcome struct {
	mu             sync.Mutex
	stdout, stderr bytes.Buffer
	err            error
	ended          bool
	done           chan struct{}
	cancel         context.CancelFunc
}

// writer is one of the buffers of an outcome.
type writer struct {
	o  *outcome
	to *bytes.Buffer
}

func (w writer) Write(p []byte) (int, error) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	return w.to.Write(p)
}

// has returns a condition: the output contains a text.
func (o *outcome) has(text string) func() bool {
	return func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return strings.Contains(o.stdout.String(), text)
	}
}

// podPath returns the path of a subresource of a pod.
func podPath(pod, subresource string, query url.Values) string {
	path := "/api/v1/namespaces/" + namespace + "/pods/" + pod + "/" + subresource
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func (c command) path() string {
	query := url.Values{}
	set := func(name string, on bool) {
		if on {
			query.Set(name, "true")
		}
	}
	if c.container != "" {
		query.Set("container", c.container)
	}
	set("stdin", c.stdin != nil)
	set("stdout", !c.noStdout)
	set("stderr", !c.noStderr)
	set("tty", c.tty)
	subresource := "attach"
	if !c.attach {
		subresource, query["command"] = "exec", c.args
	}
	return podPath(c.pod, subresource, query)
}

// start runs a command. It ends with the context of the run, or after its limit.
func (r *streamRun) start(c command) *outcome {
	config := c.config
	if config == nil {
		config = r.config
	}
	if c.limit == 0 {
		c.limit = soon
	}
	o := &outcome{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(r.ctx, c.limit)
	o.cancel = cancel
	go func() {
		defer close(o.done)
		defer cancel()
		executor, err := executorOf(config, c.way, c.path())
		if err == nil {
			options := remotecommand.StreamOptions{Stdin: c.stdin, Tty: c.tty, TerminalSizeQueue: c.sizes}
			if !c.noStdout {
				options.Stdout = writer{o, &o.stdout}
			}
			if !c.noStderr {
				options.Stderr = writer{o, &o.stderr}
			}
			err = executor.StreamWithContext(ctx, options)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err, o.ended = err, ctx.Err() == nil
	}()
	return o
}

func executorOf(config *rest.Config, way, path string) (remotecommand.Executor, error) {
	to := config.Host + path
	if way == "websocket" {
		return remotecommand.NewWebSocketExecutor(config, http.MethodGet, to)
	}
	parsed, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutor(config, http.MethodPost, parsed)
}

// sayEnd waits for the end of a command and says how it was.
func (r *streamRun) sayEnd(o *outcome) {
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	r.say("stdout: %s", brief(o.stdout.Bytes()))
	r.say("stderr: %s", brief(o.stderr.Bytes()))
	if !o.ended {
		r.say("did not end")
		return
	}
	r.say("end: %s", shown(o.err))
}

// execute runs a command to its end.
func (r *streamRun) execute(c command) { r.sayEnd(r.start(c)) }

// shown returns an error as a client sees it: its words, the code of a command and the status.
func shown(err error) string {
	if err == nil {
		return "success"
	}
	text := err.Error()
	var code exec.CodeExitError
	if errors.As(err, &code) {
		text += fmt.Sprintf(" (code %d)", code.Code)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		data, err := json.Marshal(status.Status())
		if err != nil {
			return err.Error()
		}
		text += " " + string(data)
	}
	return text
}

// ask sends a request and says what its answer is.
func (r *streamRun) ask(method, path string, header http.Header) {
	config := rest.CopyConfig(r.config)
	config.NextProtos = []string{"http/1.1"} // which has upgrades
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		r.say("%s%v", NotRun, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, soon)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.config.Host+path, nil)
	if err != nil {
		r.say("%s%v", NotRun, err)
		return
	}
	for name, values := range header {
		request.Header[name] = values
	}
	answer, err := web.Do(request)
	for range 3 { // the server closes a connection that was not upgraded
		if err == nil || !strings.Contains(err.Error(), "server closed idle connection") {
			break
		}
		answer, err = web.Do(request)
	}
	if err != nil {
		r.say("%s %s: %v", method, path, err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		r.say("%s %s: 101", method, path)
		return
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	kind := answer.Header.Get("Content-Type")
	if answer.StatusCode == http.StatusOK {
		kind = "" // of a log, it depends on the time of its first line
	}
	r.say("%s %s: %d %s %s %v", method, path, answer.StatusCode, kind, brief(body), err)
}

// cutter carries connections to the API server until it is cut.
type cutter struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	isCut    bool
}

// cutter returns a way to the API server that can be cut: for the server, as if the client was killed.
func (r *streamRun) cutter() (*rest.Config, *cutter, error) {
	server, err := url.Parse(r.config.Host)
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	c := &cutter{listener: listener}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server.Host)
			if err != nil {
				near.Close()
				continue
			}
			c.add(near, far)
			go func() { io.Copy(far, near); far.Close() }()
			go func() { io.Copy(near, far); near.Close() }()
		}
	}()
	config := rest.CopyConfig(r.config)
	config.Host = "https://" + listener.Addr().String()
	return config, c, nil
}

func (c *cutter) add(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conns...)
	if c.isCut {
		for _, conn := range conns {
			conn.Close()
		}
	}
}

// cut ends all connections. It may be called again.
func (c *cutter) cut() {
	c.listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.conns {
		conn.Close()
	}
}

// dial begins a WebSocket in one of the subprotocols. If it is refused, it says so.
func (r *streamRun) dial(config *rest.Config, path string, protocols ...string) (*websocket.Conn, bool) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		r.say("%s%v", NotRun, err)
		return nil, false
	}
	header := http.Header{}
	if config.BearerToken != "" {
		header.Set("Authorization", "Bearer "+config.BearerToken)
	}
	dialer := websocket.Dialer{TLSClientConfig: tlsConfig, Subprotocols: protocols, HandshakeTimeout: soon}
	conn, answer, err := dialer.DialContext(r.ctx, "wss"+strings.TrimPrefix(config.Host, "https")+path, header)
	if err != nil {
		body := []byte(err.Error())
		code := 0
		if answer != nil {
			code = answer.StatusCode
			body, _ = io.ReadAll(answer.Body) // a part is enough
		}
		r.say("refused: %d %s", code, brief(body))
		return nil, false
	}
	r.say("subprotocol: %q", conn.Subprotocol())
	return conn, true
}

// messages holds what came in messages, by channel.
type messages struct {
	mu   sync.Mutex
	data map[byte][]byte
	last byte // the channel of the last message
	end  string
	done chan struct{}
}

// collect reads the messages of a connection to its end, or for a time.
func collect(conn *websocket.Conn, limit time.Duration) *messages {
	m := &messages{data: map[byte][]byte{}, done: make(chan struct{})}
	conn.SetReadDeadline(time.Now().Add(limit))
	go func() {
		defer close(m.done)
		for {
			_, message, err := conn.ReadMessage()
			m.mu.Lock()
			if err != nil {
				m.end = endOf(err)
				m.mu.Unlock()
				return
			}
			if len(message) > 0 {
				m.last = message[0]
				m.data[message[0]] = append(m.data[message[0]], message[1:]...)
			}
			m.mu.Unlock()
		}
	}()
	return m
}

// endOf says how a connection has ended.
func endOf(err error) string {
	var frame *websocket.CloseError
	var late net.Error
	switch {
	case errors.As(err, &frame) && frame.Code != websocket.CloseAbnormalClosure:
		return fmt.Sprintf("close frame %d %q", frame.Code, frame.Text)
	case errors.As(err, &late) && late.Timeout():
		return "it did not end"
	}
	return "no close frame"
}

// any reports whether a message has come, or no more will.
func (m *messages) any() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.data) > 0 || m.end != ""
}

func (m *messages) has(channel byte, text string) func() bool {
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return bytes.Contains(m.data[channel], []byte(text))
	}
}

// sayMessages waits for the end of a connection and says what came.
func (r *streamRun) sayMessages(m *messages) {
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	for channel := range byte(255) {
		if data, ok := m.data[channel]; ok {
			r.say("channel %d: %s", channel, brief(data))
		}
	}
	if m.data[3] != nil || m.data['3'] != nil {
		r.say("the status is last: %v", m.last == 3 || m.last == '3')
	}
	r.say("end: %s", m.end)
}
