package inprocess

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn/user"
)

// TestWait: a server that stops takes no more requests, and waits for those in flight.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping, stop := context.WithCancel(t.Context())
		goOn := make(chan struct{})
		s := &Server{Stopping: stopping, Handler: func(w http.ResponseWriter, r *http.Request, u *user.Info) {
			<-goOn
			io.WriteString(w, u.Name+" "+r.URL.Path)
		}}
		client := s.Transport(&user.Info{Name: "alice"})
		request := func(path string) (*http.Response, error) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://any"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			return client.RoundTrip(r)
		}
		type answer struct {
			text string
			err  error
		}
		answers := make(chan answer, 1)
		go func() {
			response, err := request("/a")
			if err != nil {
				answers <- answer{err: err}
				return
			}
			text, err := io.ReadAll(response.Body)
			answers <- answer{string(text), err}
		}()
		synctest.Wait()
		stop()
		if _, err := request("/b"); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("a request while the server stops: %v", err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.Wait(soon)
		if soon.Err() == nil {
			t.Error("the server has not waited")
		}
		waited := make(chan struct{})
		go func() {
			s.Wait(t.Context())
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("the server has not waited")
		default:
		}
		close(goOn)
		<-waited
		if got := <-answers; got.text != "alice /a" || got.err != nil {
			t.Errorf(`GET /a = %q, %v, want "alice /a"`, got.text, got.err)
		}
		s.Wait(t.Context()) // for nothing
	})
}

// TestStream: a response is a stream from the first flush on, and a handler that panics after it ends
// the stream with an error.
func TestStream(t *testing.T) {
	more := make(chan bool, 1) // the handler flushes until the client reads
	s := &Server{Stopping: t.Context(), Handler: func(w http.ResponseWriter, r *http.Request, _ *user.Info) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the server sees credentials")
		}
		io.WriteString(w, "one")
		http.NewResponseController(w).Flush()
		if <-more {
			io.WriteString(w, "two")
			return
		}
		panic(http.ErrAbortHandler)
	}}
	for goOn, want := range map[bool]string{true: "onetwo", false: "one"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer x")
		response, err := s.Transport(&user.Info{Name: "alice"}).RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("RoundTrip(POST /) = %v, %v, want the code 200", response, err)
		}
		more <- goOn
		text, err := io.ReadAll(response.Body)
		if string(text) != want || (err == nil) != goOn {
			t.Errorf("with goOn %v the body = %q, %v, want %q, and an error only if the handler does not go on", goOn, text, err, want)
		}
		response.Body.Close()
	}
	if _, err := s.Transport(nil).RoundTrip(&http.Request{}); err == nil {
		t.Error("a request of nobody")
	}
}
