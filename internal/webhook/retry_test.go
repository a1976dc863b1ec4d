package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/internal/webhook"
	"github.com/planekit/planekit/internal/webhook/webhooktest"
)

const fine = `{"apiVersion":"words.example.com/v1","kind":"Review","status":{"echo":"fine"}}`

// script answers with one step after the other, repeats the last, and records the times of the
// questions.
type script struct {
	steps []any // a status code, an error, or a time for which it hangs
	asked []time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	step := s.steps[min(len(s.asked), len(s.steps)-1)]
	s.asked = append(s.asked, time.Now())
	switch step := step.(type) {
	case error:
		return nil, step
	case time.Duration:
		select {
		case <-time.After(step):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case http.Header:
		return &http.Response{StatusCode: 403, Header: step, Body: http.NoBody}, nil
	case int:
		if step != 200 {
			return &http.Response{StatusCode: step, Body: io.NopCloser(strings.NewReader(fine))}, nil
		}
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(fine))}, nil
}

func TestRetries(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}
	for name, test := range map[string]struct {
		steps []any
		asked int
		err   string
	}{
		"at once":             {[]any{200}, 1, ""},
		"500, then fine":      {[]any{500, 200}, 2, ""},
		"all kinds":           {[]any{429, 500, 503, 504, 200}, 5, ""},
		"connections":         {[]any{refused, reset, io.EOF, io.ErrUnexpectedEOF, 200}, 5, ""},
		"lost":                {[]any{errors.New("http2: client connection lost"), 200}, 2, ""},
		"asked to come later": {[]any{http.Header{"Retry-After": {"1"}}, 200}, 2, ""},
		"slow, but in time":   {[]any{2900 * time.Millisecond}, 1, ""},
		"five are enough":     {[]any{500}, 5, "answered 500 Internal Server Error"},
		"down":                {[]any{refused}, 5, "connection refused"},
		"the last counts":     {[]any{500, 502, 404}, 3, "answered 404"},
		"an alert":            {[]any{alert}, 1, "bad certificate"},
		"403":                 {[]any{403}, 1, "answered 403"},
		"hangs":               {[]any{time.Hour}, 1, "deadline exceeded"},
		"500, then hangs":     {[]any{500, time.Hour}, 2, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &script{steps: test.steps}
				s, err := webhook.New(webhook.Config{URL: "https://example.com", Transport: service})
				if err != nil {
					t.Fatal(err)
				}
				got, err := ask(t.Context(), s, "a")
				if len(service.asked) != test.asked || (err == nil) != (test.err == "") || (err == nil && got != "fine") {
					t.Fatalf("asked %d times: %q, %v", len(service.asked), got, err)
				}
				if err != nil && !strings.Contains(err.Error(), test.err) {
					t.Error(err)
				}
				pause := 500 * time.Millisecond
				for i := 1; i < len(service.asked); i++ {
					if past := service.asked[i].Sub(service.asked[i-1]); past < pause || past > pause*12/10 {
						t.Errorf("pause %d: %v, want %v and up to a fifth more", i, past, pause)
					}
					pause += pause / 2
				}
			})
		})
	}
}

func TestContextEndsRetries(t *testing.T) {
	for name, test := range map[string]struct {
		steps []any
		asked int
		err   error
	}{
		"in a pause":    {[]any{503}, 2, nil}, // the failure is more informative than the timeout
		"in an attempt": {[]any{2 * time.Second}, 1, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &script{steps: test.steps}
				s, err := webhook.New(webhook.Config{URL: "https://example.com", Transport: service})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err = ask(ctx, s, "a")
				if err == nil || (test.err != nil && !errors.Is(err, test.err)) || time.Since(began) != time.Second || len(service.asked) != test.asked {
					t.Errorf("asked %d times: %v, after %v", len(service.asked), err, time.Since(began))
				}
			})
		})
	}
}

// TestBrokenConnection cuts real connections: before an answer, and within one.
func TestBrokenConnection(t *testing.T) {
	var asked atomic.Int32
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Content-Length", fmt.Sprint(len(fine)))
			io.WriteString(w, fine[:9])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		echo(w, r)
	}))
	old := server.TLS.Clone()
	old.NextProtos = []string{"http/1.1"}
	for name, c := range map[string]webhook.Config{
		"HTTP/2":   {URL: server.URL, TLS: server.TLS},
		"HTTP/1.1": {URL: server.URL, Transport: &http.Transport{TLSClientConfig: old}},
	} {
		asked.Store(0)
		s := start(t, c)
		if got, err := ask(t.Context(), s, "a"); got != "a" || err != nil || asked.Load() != 3 {
			t.Errorf("%s: asked %d times: %q, %v", name, asked.Load(), got, err)
		}
	}
}
