package streams

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/spdystream"
	spdyframes "github.com/moby/spdystream/spdy"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rig is a server in a bubble, and its clients.
type rig struct {
	t        *testing.T
	listener *bufconn.Listener
	server   *Server
}

// inBubble runs a test against a server, which is closed after it. A goroutine that is left fails the
// test.
func inBubble(t *testing.T, test func(*testing.T, *rig)) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(64 << 10)
		r := &rig{t: t, listener: l, server: New(l)}
		test(t, r)
		if err := r.server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// client is a connection to a URL. Nothing reads its streams unless the test does.
type client struct {
	net.Conn
	*spdystream.Connection
	streams []*spdystream.Stream
	done    chan struct{}
}

// dial upgrades a connection, or returns the response.
func (r *rig) dial(address string, headers ...string) (*client, *http.Response) {
	r.t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := r.listener.DialContext(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if headers == nil {
		headers = []string{"Upgrade: SPDY/3.1"}
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n%s\r\nContent-Length: 0\r\n\r\n", to.Path, strings.Join(headers, "\r\n"))
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		text, _ := io.ReadAll(answer.Body)
		answer.Status = string(text)
		return nil, answer
	}
	c := &client{Conn: conn, done: make(chan struct{})}
	if c.Connection, err = spdystream.NewConnection(&once{Conn: conn, from: in, ended: func() {}}, false); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		c.Serve(func(s *spdystream.Stream) { s.Reset() })
	}()
	return c, answer
}

// open opens streams of these types.
func (c *client) open(t *testing.T, headers http.Header, kinds ...string) map[string]*spdystream.Stream {
	t.Helper()
	all := map[string]*spdystream.Stream{}
	for _, kind := range kinds {
		h := headers.Clone()
		if h == nil {
			h = http.Header{}
		}
		h.Set(corev1.StreamType, kind)
		s, err := c.CreateStream(h, nil, false)
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		all[kind] = s
		c.streams = append(c.streams, s)
	}
	return all
}

func (c *client) end() {
	c.Conn.Close()
	for _, s := range c.streams {
		s.Reset() // or Serve waits for a reader
	}
	<-c.done
}

func (r *rig) url(url string, err error) string {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	return url
}

// status reads the status of a command.
func readStatus(t *testing.T, from io.Reader) metav1.Status {
	t.Helper()
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	var s metav1.Status
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("Unmarshal of the status %q: %v", text, err)
	}
	return s
}

func noop(context.Context, Streams) (int32, error) { return 0, nil }

// TestRefusals: a URL is for one client that speaks SPDY, and for a minute.
func TestRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		offer := func() string {
			return r.url(r.server.Command(t.Context(), Want{Stdout: true}, noop))
		}
		for name, test := range map[string]struct {
			url     string
			headers []string
			code    int
			text    string
		}{
			"no token":    {strings.TrimRight(offer(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), nil, 404, ""},
			"WebSocket":   {offer(), []string{"Upgrade: websocket"}, 400, "missing upgrade headers"},
			"old version": {offer(), []string{"Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v3.channel.k8s.io"}, 403, "unable to negotiate protocol"},
		} {
			if _, answer := r.dial(test.url, test.headers...); answer.StatusCode != test.code || !strings.Contains(answer.Status, test.text) {
				t.Errorf("dial of %s = %d %q, want %d with %q", name, answer.StatusCode, answer.Status, test.code, test.text)
			}
		}
		late := offer()
		time.Sleep(offerTimeout + 1)
		if _, answer := r.dial(late); answer.StatusCode != http.StatusNotFound {
			t.Errorf("after a minute: %d", answer.StatusCode)
		}
		for range maxOffers {
			offer()
		}
		if _, err := r.server.Command(t.Context(), Want{Stdout: true}, noop); !errors.Is(err, ErrTooMany) {
			t.Errorf("one URL too many: %v", err)
		}
		time.Sleep(offerTimeout + 1)
		offer()
	})
}

// TestClosed: a server that is closed gives no URL.
func TestClosed(t *testing.T) {
	for _, used := range []bool{false, true} {
		s := New(nil)
		if used {
			if url, err := s.Forward(nil); err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
				t.Errorf("Forward(nil) = %q, %v, want a URL that starts with http://127.0.0.1:", url, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Command(t.Context(), Want{}, noop); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a URL of a server that is closed: %v", err)
		}
	}
}

// TestHalfOpen: a client that does not open its streams is cut off, and gets the reason if it has
// opened the stream of the status.
func TestHalfOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for _, kinds := range [][]string{nil, {corev1.StreamTypeStdout}, {corev1.StreamTypeError, "unknown", corev1.StreamTypeStdin}} {
			c, _ := r.dial(r.url(r.server.Command(t.Context(), Want{Stdin: true, Stdout: true}, func(context.Context, Streams) (int32, error) {
				t.Error("the program runs")
				return 0, nil
			})))
			begun := time.Now()
			open := c.open(t, nil, kinds...)
			if s := open[corev1.StreamTypeError]; s != nil {
				if status := readStatus(t, s); !strings.Contains(status.Message, "timed out waiting for client to create streams") {
					t.Errorf("with the streams %q the status is %v, want a message with %q",
						kinds, status, "timed out waiting for client to create streams")
				}
			}
			<-c.done
			if took := time.Since(begun); took < openTimeout || took > openTimeout+linger {
				t.Errorf("%q: it ended after %v", kinds, took)
			}
			c.end()
		}
	})
}

// TestEndedMeanwhile: a container that ends while a client opens its streams ends all of them at once, and says why.
func TestEndedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		life, end := context.WithCancel(t.Context())
		c, _ := r.dial(r.url(r.server.Command(life, Want{Stdin: true, Stdout: true}, func(context.Context, Streams) (int32, error) {
			t.Error("the program runs")
			return 0, nil
		})))
		begun := time.Now()
		open := c.open(t, nil, corev1.StreamTypeError, corev1.StreamTypeStdout)
		end()
		if out, err := io.ReadAll(open[corev1.StreamTypeStdout]); len(out) > 0 || err != nil {
			t.Errorf("the output = %q, %v, want its end", out, err)
		}
		if status := readStatus(t, open[corev1.StreamTypeError]); !strings.Contains(status.Message, "the container has ended") {
			t.Errorf("the status = %v, want that the container has ended", status)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it ended after %v, want at once", took)
		}
		<-c.done
		c.end()
	})
}

// TestHostileFrames: unexpected frames stop neither the program nor the end.
func TestHostileFrames(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		life, end := context.WithCancel(t.Context())
		var ended atomic.Bool
		c, _ := r.dial(r.url(r.server.Command(life, Want{Stdin: true, Stdout: true}, func(ctx context.Context, s Streams) (int32, error) {
			<-ctx.Done() // it reads nothing
			ended.Store(true)
			return 1, nil
		})))
		open := c.open(t, nil, corev1.StreamTypeError, corev1.StreamTypeStdin, corev1.StreamTypeStdout)
		// More streams, data on an output, input that is not read, and headers.
		more, err := c.CreateStream(http.Header{}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*spdystream.Stream{open[corev1.StreamTypeStdout], open[corev1.StreamTypeStdin], more} {
			for range 3 {
				io.WriteString(s, "junk")
			}
		}
		if err := open[corev1.StreamTypeError].SendHeader(http.Header{"A": {"b"}}, false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the program runs
		if ended.Load() {
			t.Error("the program was stopped")
		}
		end()
		if status := readStatus(t, open[corev1.StreamTypeError]); status.Reason != reasonNonZeroExitCode {
			t.Errorf("after the end of the program the status is %v, want reason %s", status, reasonNonZeroExitCode)
		}
		c.end()
	})
}

// TestGarbage: what is no frame ends the program.
func TestGarbage(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		started, ended := make(chan struct{}), make(chan struct{})
		c, _ := r.dial(r.url(r.server.Command(t.Context(), Want{Stdout: true}, func(ctx context.Context, _ Streams) (int32, error) {
			defer close(ended)
			close(started)
			<-ctx.Done()
			return 0, nil
		})))
		c.open(t, nil, corev1.StreamTypeError, corev1.StreamTypeStdout)
		<-started
		framer, err := spdyframes.NewFramer(c.Conn, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		framer.WriteFrame(&spdyframes.SettingsFrame{})
		io.WriteString(c.Conn, strings.Repeat("GET / HTTP/1.1\r\n\r\n", 10000))
		c.Conn.Close()
		<-ended
		<-c.done
	})
}

// TestUnread: a client that does not read is cut off when the container has ended, and not before.
func TestUnread(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		life, end := context.WithCancel(t.Context())
		var failed atomic.Bool
		c, _ := r.dial(r.url(r.server.Command(life, Want{Stdout: true}, func(_ context.Context, s Streams) (int32, error) {
			for {
				if _, err := s.Stdout.Write(make([]byte, 100<<10)); err != nil {
					failed.Store(true)
					return 1, nil
				}
			}
		})))
		c.open(t, nil, corev1.StreamTypeError, corev1.StreamTypeStdout)
		time.Sleep(time.Hour)
		if failed.Load() {
			t.Error("the program's write has failed")
		}
		end()
		time.Sleep(linger + 1)
		synctest.Wait()
		if !failed.Load() {
			t.Error("the program still writes")
		}
		c.end()
	})
}

// TestInterrupt: Ctrl-C ends a command in a terminal with the exit code of a signal.
func TestInterrupt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c, _ := r.dial(r.url(r.server.Command(t.Context(), Want{Stdin: true, Stdout: true, TTY: true}, func(ctx context.Context, s Streams) (int32, error) {
			size := <-s.Resize
			fmt.Fprintf(s.Stdout, "%dx%d\n", size.Width, size.Height)
			_, err := io.Copy(s.Stdout, s.Stdin)
			return 0, err
		})))
		open := c.open(t, nil, corev1.StreamTypeError, corev1.StreamTypeStdin, corev1.StreamTypeStdout, corev1.StreamTypeResize)
		io.WriteString(open[corev1.StreamTypeResize], `{"Width":80,"Height":24}`)
		want := "80x24\r\n"
		for _, step := range []struct{ keys, screen string }{{"", want}, {"hi\r", "hi\r\nhi\r\n"}, {"\x03", "^C\r\n"}} {
			io.WriteString(open[corev1.StreamTypeStdin], step.keys)
			got := make([]byte, len(step.screen))
			if _, err := io.ReadFull(open[corev1.StreamTypeStdout], got); err != nil || string(got) != step.screen {
				t.Errorf("after %q: %q, %v", step.keys, got, err)
			}
		}
		if status := readStatus(t, open[corev1.StreamTypeError]); status.Details == nil || status.Details.Causes[0].Message != "130" {
			t.Errorf("after an interrupt the status is %v, want exit code 130 as its first cause", status)
		}
		c.end()
	})
}

// TestForwardPairs: a connection needs both of its streams, each once, and a port.
func TestForwardPairs(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c, _ := r.dial(r.url(r.server.Forward(func(_ context.Context, port uint16, conn net.Conn) error {
			defer conn.Close()
			text, err := io.ReadAll(conn)
			fmt.Fprintf(conn, "%d: %s", port, text)
			return err
		})), "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: "+forwardProtocol)
		headers := func(request, port string) http.Header {
			return http.Header{corev1.PortForwardRequestIDHeader: {request}, corev1.PortHeader: {port}}
		}
		open := c.open(t, headers("1", "80"), corev1.StreamTypeData, corev1.StreamTypeError)
		io.WriteString(open[corev1.StreamTypeData], "half-closed")
		open[corev1.StreamTypeData].Close()
		if text, err := io.ReadAll(open[corev1.StreamTypeData]); err != nil || string(text) != "80: half-closed" {
			t.Errorf("ReadAll of the data of port 80 = %q, %v, want %q", text, err, "80: half-closed")
		}
		for _, port := range []string{"", "0", "65536", "http"} {
			open := c.open(t, headers("port"+port, port), corev1.StreamTypeError, corev1.StreamTypeData)
			if text, err := io.ReadAll(open[corev1.StreamTypeError]); err != nil || !strings.Contains(string(text), "must be between 1 and 65535") {
				t.Errorf("port %q: %q, %v", port, text, err)
			}
		}
		begun := time.Now()
		single := c.open(t, headers("2", "80"), corev1.StreamTypeData)[corev1.StreamTypeData]
		again := c.open(t, headers("2", "80"), corev1.StreamTypeData)[corev1.StreamTypeData]
		if text, err := io.ReadAll(again); err != nil || len(text) > 0 || time.Since(begun) > 0 {
			t.Errorf("the same stream a second time: %q, %v after %v", text, err, time.Since(begun))
		}
		if text, err := io.ReadAll(single); err != nil || len(text) > 0 || time.Since(begun) != openTimeout {
			t.Errorf("a stream alone: %q, %v after %v", text, err, time.Since(begun))
		}
		// A connection that is open when the client goes does not keep the server.
		c.open(t, headers("3", "80"), corev1.StreamTypeData, corev1.StreamTypeError)
		c.end()
	})
}
