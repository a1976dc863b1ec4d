package planetest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The channels of v5.channel.k8s.io.
const (
	toStdin byte = iota
	fromStdout
	fromStderr
	fromStatus
	closing byte = 255
)

// caller opens streams as a user does, through the API server.
type caller struct {
	dialer websocket.Dialer
	host   string
}

func newCaller(t *testing.T, p *planetest.Plane) *caller {
	t.Helper()
	r := p.REST("admin", "system:masters")
	pair, err := tls.X509KeyPair(r.CertData, r.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.CAData)
	return &caller{host: strings.Replace(r.Host, "https://", "wss://", 1), dialer: websocket.Dialer{
		NetDialContext: r.Dial, Subprotocols: []string{"v5.channel.k8s.io"},
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}}
}

// open begins exec or attach in the pod web.
func (c *caller) open(ctx context.Context, verb string, command ...string) (*websocket.Conn, error) {
	query := url.Values{"stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "command": command}
	ws, answer, err := c.dialer.DialContext(ctx, c.host+"/api/v1/namespaces/default/pods/web/"+verb+"?"+query.Encode(), nil)
	if err != nil && answer != nil {
		text, _ := io.ReadAll(answer.Body)
		err = fmt.Errorf("%w: %s %s", err, answer.Status, text)
	}
	return ws, err
}

// run sends input, if there is any, and its end, and returns the outputs and the status.
func (c *caller) run(ctx context.Context, input string, command ...string) (stdout, stderr string, status metav1.Status, err error) {
	ws, err := c.open(ctx, "exec", command...)
	if err != nil {
		return "", "", status, err
	}
	defer ws.Close()
	defer context.AfterFunc(ctx, func() { ws.Close() })()
	for _, message := range [][]byte{append([]byte{toStdin}, input...), {closing, toStdin}} {
		if err := ws.WriteMessage(websocket.BinaryMessage, message); err != nil {
			return "", "", status, err
		}
	}
	for {
		_, message, err := ws.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			return stdout, stderr, status, nil
		}
		if err != nil || len(message) == 0 {
			return stdout, stderr, status, errors.Join(err, errors.New("the stream ended too early"))
		}
		switch text := message[1:]; message[0] {
		case fromStdout:
			stdout += string(text)
		case fromStderr:
			stderr += string(text)
		case fromStatus:
			if err := json.Unmarshal(text, &status); err != nil {
				return stdout, stderr, status, err
			}
		}
	}
}

// read reads text from the output of a stream.
func read(ws *websocket.Conn, want string) error {
	got := ""
	for len(got) < len(want) {
		_, message, err := ws.ReadMessage()
		if err != nil {
			return fmt.Errorf("after %q: %w", got, err)
		}
		if len(message) > 0 && message[0] == fromStdout {
			got += string(message[1:])
		}
	}
	if got != want {
		return fmt.Errorf("the output is %q, want %q", got, want)
	}
	return nil
}

// startWeb runs the pod web with a command, and returns when it is ready. Wait lets time pass.
func startWeb(t *testing.T, p *planetest.Plane, wait func(check func() error), command ...string) {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "web"
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "busybox", Command: command, Stdin: true}}
	if _, err := typed.Pods(p.Client()).Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	wait(func() error {
		web, err := typed.Pods(p.Client()).Get(t.Context(), "default", "web")
		if err == nil && web.Status.Phase != corev1.PodRunning {
			err = errors.New("the pod is " + string(web.Status.Phase))
		}
		return err
	})
}

// TestStreams: exec and attach reach the programs of simulated containers.
func TestStreams(t *testing.T) {
	p := planetest.Start(t, planetest.Nodes(1))
	startWeb(t, p, func(check func() error) { planetest.Eventually(t, check) }, "cat")
	c := newCaller(t, p)
	for _, test := range []struct {
		command               []string
		stdout, stderr, words string // words are part of the status
	}{
		{[]string{"echo", "hello", "you"}, "hello you\n", "", `"Success"`},
		{[]string{"cat"}, "input", "", `"Success"`},
		{[]string{"cat", "/file"}, "", "cat: can't open '/file': No such file or directory\n", `"reason":"ExitCode","message":"1"`},
		{[]string{"/bin/false"}, "", "", `"reason":"ExitCode","message":"1"`},
		{[]string{"tty"}, "not a tty\n", "", `"reason":"ExitCode","message":"1"`},
		{[]string{"sleep", "x"}, "", "sleep: invalid number 'x'\n", `"reason":"ExitCode","message":"1"`},
		{[]string{"ls"}, "", "", `OCI runtime exec failed: exec failed: unable to start container process: exec: \"ls\": executable file not found in $PATH: unknown`},
	} {
		stdout, stderr, status, err := c.run(t.Context(), "input", test.command...)
		text, _ := json.Marshal(status)
		if err != nil || stdout != test.stdout || stderr != test.stderr || !strings.Contains(string(text), test.words) {
			t.Errorf("run(%q) = %q, %q, %s, %v, want %q, %q and a status with %s",
				test.command, stdout, stderr, text, err, test.stdout, test.stderr, test.words)
		}
	}
	ws, err := c.open(t.Context(), "attach")
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if err := errors.Join(ws.WriteMessage(websocket.BinaryMessage, []byte("\x00said\n")), read(ws, "said\n")); err != nil {
		t.Error(err)
	}
	if _, answer, err := c.dialer.DialContext(t.Context(), c.host+"/api/v1/namespaces/default/pods/web/exec?container=other&command=x&stdout=1", nil); err == nil || answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a container that does not exist: %v, %v", answer, err)
	}
}

// TestStreamsInBubble: streams stay in memory, and time passes for commands.
func TestStreamsInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.Start(t, planetest.WithoutNetwork(), planetest.Nodes(1))
		startWeb(t, p, func(check func() error) {
			time.Sleep(time.Minute)
			if err := check(); err != nil {
				t.Fatal(err)
			}
		}, "cat")
		begin := time.Now()
		if _, _, status, err := newCaller(t, p).run(t.Context(), "", "sleep", "300"); err != nil || status.Status != metav1.StatusSuccess || time.Since(begin) < 5*time.Minute {
			t.Errorf("after %v: %v, %v", time.Since(begin), status, err)
		}
	})
}

// floods counts the commands that write without an end.
type floods struct{ running atomic.Int64 }

func (f *floods) exec(c *runtimeapi.ContainerConfig, command []string) memruntime.Program {
	if command[0] != "yes" {
		return memruntime.Command(c, command)
	}
	return func(_ context.Context, s memruntime.Streams) int32 {
		f.running.Add(1)
		defer f.running.Add(-1)
		for {
			if _, err := io.WriteString(s.Stdout, strings.Repeat("y\n", 1000)); err != nil {
				return 1
			}
		}
	}
}

// TestHostileStreams: many clients at once, those that do not read and those that vanish harm no other
// client, and leave nothing behind.
func TestHostileStreams(t *testing.T) {
	commands := &floods{}
	p := planetest.Start(t, planetest.Nodes(1, func(c *nodes.Config) { c.Runtime = &nodes.Memory{Exec: commands.exec} }))
	startWeb(t, p, func(check func() error) { planetest.Eventually(t, check) }, "cat")
	c := newCaller(t, p)
	if _, _, _, err := c.run(t.Context(), "", "true"); err != nil { // what stays from the first stream on
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()

	var vanish []*websocket.Conn
	for _, command := range []string{"yes", "yes", "cat", "sleep 1000"} {
		ws, err := c.open(t.Context(), "exec", strings.Fields(command)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.WriteMessage(websocket.BinaryMessage, []byte("\x00some input")); err != nil {
			t.Fatal(err)
		}
		vanish = append(vanish, ws)
	}
	attached, err := c.open(t.Context(), "attach")
	if err != nil {
		t.Fatal(err)
	}
	vanish = append(vanish, attached)
	planetest.Eventually(t, func() error {
		if n := commands.running.Load(); n != 2 {
			return fmt.Errorf("%d commands run", n)
		}
		return nil
	})
	var all errgroup.Group
	for i := range 100 {
		all.Go(func() error {
			text := strings.Repeat(fmt.Sprintf("line of client %d\n", i), 1000)
			stdout, _, status, err := c.run(t.Context(), text, "cat")
			if err == nil && (stdout != text || status.Status != metav1.StatusSuccess) {
				err = fmt.Errorf("client %d got %d bytes of %d: %v", i, len(stdout), len(text), status)
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	for _, ws := range vanish {
		ws.NetConn().Close() // without a close frame
	}
	planetest.Eventually(t, func() error {
		if n := runtime.NumGoroutine(); commands.running.Load() > 0 || n > before {
			return fmt.Errorf("%d commands run, %d goroutines, %d before", commands.running.Load(), n, before)
		}
		return nil
	})
}

// TestStreamsEndWithTheirPod: the clients of a container that is killed get an end and no silence.
func TestStreamsEndWithTheirPod(t *testing.T) {
	started := make(chan struct{})
	exec := func(c *runtimeapi.ContainerConfig, command []string) memruntime.Program {
		close(started)
		return memruntime.Command(c, command)
	}
	p := planetest.Start(t, planetest.Nodes(1, func(c *nodes.Config) { c.Runtime = &nodes.Memory{Exec: exec} }))
	startWeb(t, p, func(check func() error) { planetest.Eventually(t, check) }, "cat")
	c := newCaller(t, p)
	ended := make(chan metav1.Status, 1)
	go func() {
		_, _, status, err := c.run(t.Context(), "", "sleep", "1000")
		if err != nil {
			t.Error(err)
		}
		ended <- status
	}()
	attached, err := c.open(t.Context(), "attach")
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close()
	if err := errors.Join(attached.WriteMessage(websocket.BinaryMessage, []byte("\x00on")), read(attached, "on")); err != nil {
		t.Error(err)
	}
	<-started
	grace := int64(0)
	if err := typed.Pods(p.Client()).Delete(t.Context(), "default", "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status.Status != metav1.StatusFailure {
		t.Errorf("the command ends with %+v", status)
	}
	for {
		_, message, err := attached.ReadMessage()
		if err != nil {
			t.Fatalf("the client that is attached: %v", err)
		}
		if len(message) > 1 && message[0] == fromStatus {
			break
		}
	}
}
