package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/planekit/planekit/examples/ingress/router"
	networkingv1 "k8s.io/api/networking/v1"
)

// pipes is a listener in memory, whose connections know deadlines on the clock of a bubble.
type pipes chan net.Conn

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p <- server
	return client, nil
}

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// inMemory calls test in a bubble with what dials a proxy, whose only endpoint is handle.
func inMemory(t *testing.T, handle http.HandlerFunc, test func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		front, back := make(pipes), make(pipes)
		proxy, err := router.NewProxy(router.Config{Dial: back.dial})
		if err != nil {
			t.Fatal(err)
		}
		proxy.SetTable(router.NewTable([]*networkingv1.Ingress{ingress("all", 1, rule("", "Prefix / web"))}))
		proxy.SetService("default/web", router.Addresses{"80": {"10.1.0.1:80"}})
		servers := []*http.Server{{Handler: handle}, {Handler: proxy, IdleTimeout: time.Hour}}
		for i, listener := range []pipes{back, front} {
			go servers[i].Serve(listener)
		}
		test(t, func() net.Conn {
			c, err := front.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return c
		})
		proxy.Close()
		for i, listener := range []pipes{back, front} {
			close(listener)
			if err := servers[i].Close(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second) // servers wait a little before they close connections
	})
}

// exchange writes text and returns the code of the answer, and how long it took.
func exchange(t *testing.T, conn net.Conn, reader *bufio.Reader, text string) (int, time.Duration) {
	t.Helper()
	begun := time.Now()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	answer, err := http.ReadResponse(reader, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, time.Since(begun)
}

// TestHangs: an endpoint that does not answer, and clients that stop.
func TestHangs(t *testing.T) {
	var ended chan string // has a request at the endpoint; made in the bubble
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-r.Context().Done()
		case "/endless":
			w.Header().Set("Content-Length", "1000000000000") // without it, the ReverseProxy flushes under a mutex, for which a bubble's clock stands still
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 64<<10))
			}
			ended <- r.URL.Path
		default:
			_, _ = io.Copy(io.Discard, r.Body)
		}
	}, func(t *testing.T, dial func() net.Conn) {
		ended = make(chan string, 1)
		conn := dial()
		defer conn.Close()
		if code, took := exchange(t, conn, bufio.NewReader(conn), "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n"); code != http.StatusGatewayTimeout || took != time.Minute {
			t.Errorf("an endpoint hangs: %d after %v", code, took)
		}
		conn = dial()
		defer conn.Close()
		if code, took := exchange(t, conn, bufio.NewReader(conn), "POST /half HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"); code != http.StatusRequestTimeout || took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("a client sends half a body: %d after %v", code, took)
		}
		conn = dial()
		defer conn.Close()
		begun := time.Now()
		if _, err := io.WriteString(conn, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if <-ended; time.Since(begun) != time.Minute {
			t.Errorf("a client does not read: the endpoint writes for %v", time.Since(begun))
		}
	})
}

// TestTakesItsTime: what lasts longer than a part of a body may is no failure, on a connection that is
// used again after each.
func TestTakesItsTime(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(50 * time.Second) // less than an endpoint may take, with what was before more than a client may
		if r.URL.Path == "/stream" {
			for range 3 {
				fmt.Fprint(w, "part")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Minute)
			}
		}
	}, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for _, path := range []string{"/slow", "/stream", "/slow"} {
			if code, _ := exchange(t, conn, reader, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"); code != http.StatusOK {
				t.Errorf("POST %s = %d, want 200", path, code)
			}
			time.Sleep(10 * time.Minute)
			if code, _ := exchange(t, conn, reader, "HEAD /slow HTTP/1.1\r\nHost: a\r\n\r\n"); code != http.StatusOK {
				t.Errorf("HEAD after %s: %d", path, code)
			}
			time.Sleep(10 * time.Minute)
		}
		if code, took := exchange(t, conn, reader, "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhalf"); code != http.StatusRequestEntityTooLarge || took > time.Second {
			t.Errorf("an endpoint that does not read the body: %d after %v", code, took)
		}
	})
}

// TestIdleWebsocket: a connection that was upgraded has no deadlines.
func TestIdleWebsocket(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	}, func(t *testing.T, dial func() net.Conn) {
		dialer := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) { return dial(), nil }}
		c, answer, err := dialer.Dial("ws://a/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		defer c.Close()
		for i := range 3 {
			time.Sleep(time.Hour)
			text := strings.Repeat("x", i+1)
			if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if _, got, err := c.ReadMessage(); err != nil || string(got) != text {
				t.Fatalf("after an idle hour ReadMessage() = %q, %v, want %q", got, err, text)
			}
		}
	})
}
