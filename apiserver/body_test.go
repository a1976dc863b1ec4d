package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"k8s.io/apimachinery/pkg/runtime"
)

// wired runs a server on pipes, where clients say in X-User who they are, and
// returns a function that connects and sends text.
func wired(t *testing.T, changes ...func(*apiserver.Config)) (s *apiserver.Server, send func(text string) net.Conn) {
	listener := &one{conns: make(chan net.Conn), closed: make(chan struct{})}
	s, _ = inMemory(t, append([]func(*apiserver.Config){func(c *apiserver.Config) {
		c.Listener, c.InsecurePlainHTTP = listener, true
		c.Authenticator = authn.Func(func(r *http.Request) (*user.Info, bool, error) {
			return &user.Info{Name: r.Header.Get("X-User")}, true, nil
		})
	}}, changes...)...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, func(text string) net.Conn {
		ours, theirs := net.Pipe()
		listener.conns <- theirs
		if _, err := io.WriteString(ours, text); err != nil {
			t.Error(err)
		}
		return ours
	}
}

func post(user string, length int, begin string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nX-User: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		configPath, user, length, begin)
}

// TestUnfinishedBodiesStarveNobody has one user begin 1,200 bodies. Requests of
// other users are served at once, those of the same user when the bodies are cut.
func TestUnfinishedBodiesStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, send := wired(t)
		began := time.Now()
		codes := map[string]int{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 1200 {
			group.Go(func() {
				conn := send(post("mallory", 1000, "{"))
				text, _ := io.ReadAll(conn) // until the server closes it
				conn.Close()
				mu.Lock()
				defer mu.Unlock()
				codes[strings.SplitN(string(text)+"   ", " ", 3)[1]]++
			})
		}
		synctest.Wait()
		jane := &api{t, &http.Client{Transport: s.Transport(&user.Info{Name: "jane"})}, "http://memory"}
		jane.create(configPath, configMap("a", ""))
		jane.want(jane.do("GET", configPath, ""), 200, "")
		if waited := time.Since(began); waited != 0 {
			t.Errorf("another user waited %v", waited)
		}
		mallory := &api{t, &http.Client{Transport: s.Transport(&user.Info{Name: "mallory"})}, "http://memory"}
		mallory.want(mallory.do("GET", configPath, ""), 200, "") // it has no body
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a request without a body waited %v", waited)
		}
		group.Wait()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("cut after %v", took)
		}
		if codes["408"] < 256 || codes["408"]+codes["429"] != 1200 {
			t.Errorf("answers %v", codes)
		}
		mallory.create(configPath, configMap("b", ""))
	})
}

// TestBodiesMustKeepUp: a client that sends less than the least rate is cut off,
// one that sends more is not, however the body is framed.
func TestBodiesMustKeepUp(t *testing.T) {
	for _, c := range []struct {
		name         string
		chunk, every int // bytes, milliseconds
		code         string
		after        time.Duration
	}{
		{"nothing", 0, 1000, "408", 10 * time.Second},
		{"too slow", 1 << 10, 1000, "408", 12 * time.Second},
		{"in bursts", 20 << 10, 1200, "201", 30 * time.Second},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chunked %v", c.name, chunked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					code, after := sendSlowly(t, c.chunk, time.Duration(c.every)*time.Millisecond, chunked)
					if code != c.code || after > c.after {
						t.Errorf("%s after %v", code, after)
					}
				})
			})
		}
	}
}

// sendSlowly sends a body of 200 KiB in pieces, and returns the code of the answer
// and when it came. After an error the connection must be closed.
func sendSlowly(t *testing.T, chunk int, every time.Duration, chunked bool) (code string, after time.Duration) {
	_, send := wired(t)
	began := time.Now()
	body := configMap("a", `,"data":{"k":"`+strings.Repeat("x", 200<<10)+`"}`)
	head := post("jane", len(body), "")
	if chunked {
		head = strings.Replace(head, fmt.Sprintf("Content-Length: %d", len(body)), "Transfer-Encoding: chunked", 1)
	}
	conn := send(head)
	var writer sync.WaitGroup
	writer.Go(func() {
		for len(body) > 0 {
			n := min(chunk, len(body))
			piece := body[:n]
			if chunked && n > 0 {
				piece = fmt.Sprintf("%x\r\n%s\r\n", n, piece)
			}
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
			body = body[n:]
			time.Sleep(every)
		}
		if chunked {
			_, _ = io.WriteString(conn, "0\r\n\r\n")
		}
	})
	start := make([]byte, len("HTTP/1.1 ")+3)
	if _, err := io.ReadFull(conn, start); err != nil {
		t.Error(err)
	}
	after, code = time.Since(began), string(start[len("HTTP/1.1 "):])
	if code != "201" {
		if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(began) > after+time.Second {
			t.Errorf("closed after %v: %v", time.Since(began), err)
		}
	}
	conn.Close()
	writer.Wait()
	return code, after
}

// TestLargeBodiesAreRefusedUnread: a client that announces too much is refused before
// it sends anything, and one that asks first sends nothing.
func TestLargeBodiesAreRefusedUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, send := wired(t)
		for _, ask := range []bool{false, true} {
			for length, want := range map[int]string{3<<20 + 1: "HTTP/1.1 413", 1 << 40: "HTTP/1.1 413"} {
				head := post("jane", length, "")
				if ask {
					head = strings.Replace(head, "Host:", "Expect: 100-continue\r\nHost:", 1)
				}
				began := time.Now()
				conn := send(head)
				text, err := io.ReadAll(conn) // until the server closes it
				conn.Close()
				if err != nil || !strings.HasPrefix(string(text), want) || time.Since(began) > time.Second {
					t.Errorf("%d bytes, asked %v: %q after %v: %v", length, ask, text, time.Since(began), err)
				}
			}
		}
	})
}

// TestClientsMayAskFirst: a client that waits for 100 Continue gets it.
func TestClientsMayAskFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, send := wired(t)
		body := configMap("a", "")
		conn := send(strings.Replace(post("jane", len(body), ""), "Host:", "Expect: 100-continue\r\nHost:", 1))
		reader := bufio.NewReader(conn)
		if line, err := reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Fatalf("the answer to the headers is %q, %v, want HTTP/1.1 100", line, err)
		}
		if _, err := io.WriteString(conn, body); err != nil {
			t.Fatal(err)
		}
		_, _ = reader.ReadString('\n')
		if line, err := reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 201") {
			t.Errorf("the answer to the body is %q, %v, want HTTP/1.1 201", line, err)
		}
		conn.Close()
	})
}

// TestLargeBodiesArePassedOn: another server decides itself how much it takes.
func TestLargeBodiesArePassedOn(t *testing.T) {
	_, a := inMemory(t, func(c *apiserver.Config) {
		c.Aggregator = &behind{serve: func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, " ", r.ContentLength, " ", err)
		}}
	})
	for _, size := range []int64{1, 3 << 20, 3<<20 + 1, 3<<20 + 2, 8 << 20} {
		for _, length := range []int64{size, -1} {
			body := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", int(size)))}
			r, err := http.NewRequestWithContext(t.Context(), "POST", a.base+"/apis/others.example.com/v1/things", body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = length
			response, err := a.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			if want := fmt.Sprint(size, " ", length, " <nil>"); err != nil || string(text) != want {
				t.Errorf("%q, want %q: %v", text, want, err)
			}
		}
	}
}

// TestStalledBodiesPassedOnEnd: a client that sends the beginning of a large body
// for another server, and no more, is cut off when the request has timed out.
func TestStalledBodiesPassedOnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, send := wired(t, func(c *apiserver.Config) {
			c.Aggregator = &behind{serve: func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }}
		})
		began := time.Now()
		head := strings.Replace(post("mallory", 8<<20, ""), configPath, "/apis/others.example.com/v1/things", 1)
		conn := send(head + strings.Repeat("x", 4<<20))
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		if took := time.Since(began); took < 59*time.Second || took > 61*time.Second {
			t.Errorf("cut after %v", took)
		}
	})
}

// TestStreamsAreNotReceived: what lasts as long as the client likes gets the body
// as it comes.
func TestStreamsAreNotReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, send := wired(t, func(c *apiserver.Config) {
			c.Resources = []apiserver.Resource{pods()}
			c.Resources[0].Subresources = []apiserver.Subresource{apiserver.Proxy{
				Name: "attach", Verbs: []string{"create"},
				Connect: func(runtime.Object) (http.Handler, error) {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_ = http.NewResponseController(w).EnableFullDuplex()
						one := make([]byte, 1)
						for {
							if _, err := io.ReadFull(r.Body, one); err != nil {
								return
							}
							_, _ = w.Write(one)
							_ = http.NewResponseController(w).Flush()
						}
					}), nil
				},
			}}
		})
		body := pod("p", "")
		conn := send(strings.Replace(post("jane", len(body), body), configPath, podPath, 1))
		if text, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(text, "201") {
			t.Fatalf("the create of the pod gives %q, %v, want 201", text, err)
		}
		conn.Close()
		conn = send(strings.Replace(post("jane", 1<<30, ""), configPath, podPath+"/p/attach", 1))
		reader := bufio.NewReader(conn)
		for i := range 10 {
			time.Sleep(time.Minute)
			if _, err := io.WriteString(conn, "#"); err != nil {
				t.Fatal(err)
			}
			if _, err := reader.ReadString('#'); err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		conn.Close()
	})
}

// TestBodiesAreNoLongerThanSaid: a program in this process that says a wrong
// length gets an error, and at no cost.
func TestBodiesAreNoLongerThanSaid(t *testing.T) {
	_, a := inMemory(t)
	body := configMap("a", `,"data":{"k":"`+strings.Repeat("x", 2<<20)+`"}`)
	r, err := http.NewRequestWithContext(t.Context(), "POST", a.base+configPath, struct{ io.Reader }{strings.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = 100
	response, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Error(response.Status)
	}
}

// TestBodiesOfAllSizes are read whole up to the bound, whatever the client says of
// their length.
func TestBodiesOfAllSizes(t *testing.T) {
	_, a := inMemory(t)
	const bound = 3 << 20
	empty := len(configMap("c000", `,"data":{"k":""}`))
	for i, size := range []int{empty, 16<<10 - 1, 16 << 10, 16<<10 + 1, 1 << 20, bound - 1, bound, bound + 1, bound + 2, 2 * bound} {
		for _, known := range []bool{true, false} {
			name := fmt.Sprintf("c%03d", 2*i)
			if !known {
				name = fmt.Sprintf("c%03d", 2*i+1)
			}
			body := io.Reader(strings.NewReader(configMap(name, `,"data":{"k":"`+strings.Repeat("x", size-empty)+`"}`)))
			if !known {
				body = struct{ io.Reader }{body}
			}
			r, err := http.NewRequestWithContext(t.Context(), "POST", a.base+configPath, body)
			if err != nil {
				t.Fatal(err)
			}
			response, err := a.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			want := http.StatusCreated
			if size > bound {
				want = http.StatusRequestEntityTooLarge
			}
			if response.StatusCode != want {
				t.Errorf("%d bytes, length known %v: %s", size, known, response.Status)
			}
		}
	}
}

// TestBodiesAreSharedFairly has one user hold memory for bodies that are being
// served. What this user sends beyond waits, what others send does not.
func TestBodiesAreSharedFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s, send := wired(t, func(c *apiserver.Config) {
			c.MaxBodyBytes = 100_000
			c.Authorizer = authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
				if a.User.Name == "mallory" {
					<-release
				}
				return authz.Allow, "", nil
			})
		})
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				conn := send(post("mallory", 9_000, strings.Repeat("x", 9_000)))
				_, _ = io.ReadFull(conn, make([]byte, 1))
				conn.Close()
			})
		}
		synctest.Wait()
		began := time.Now()
		jane := &api{t, &http.Client{Transport: s.Transport(&user.Info{Name: "jane"})}, "http://memory"}
		jane.create(configPath, configMap("a", `,"data":{"k":"`+strings.Repeat("x", 50_000)+`"}`))
		if waited := time.Since(began); waited != 0 {
			t.Errorf("another user waited %v", waited)
		}
		close(release)
		group.Wait()
	})
}
