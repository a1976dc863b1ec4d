package webhook_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/webhook"
	"github.com/planekit/planekit/internal/webhook/webhooktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type spec struct {
	Word string `json:"word"`
}

type status struct {
	Echo string `json:"echo"`
}

const apiVersion, kind = "words.example.com/v1", "Review"

func start(t *testing.T, c webhook.Config) *webhook.Service {
	t.Helper()
	s, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func ask(ctx context.Context, s *webhook.Service, word string) (string, error) {
	got, err := webhook.Ask[spec, status](ctx, s, apiVersion, kind, spec{word})
	return got.Echo, err
}

func echo(w http.ResponseWriter, r *http.Request) {
	var q struct {
		APIVersion, Kind string
		Spec             spec
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.APIVersion != apiVersion || q.Kind != kind {
		http.Error(w, "wrong question", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"spec":7,"status":{"echo":%q}}`, q.APIVersion, q.Kind, q.Spec.Word)
}

func TestAsk(t *testing.T) {
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !webhooktest.Asked(r) || r.URL.Path != "/review" || r.Header.Get("Authorization") != "Bearer t0ken" || r.ProtoMajor != 2 {
			t.Errorf("%s %s %v by %v", r.Method, r.URL, r.Header, r.TLS.PeerCertificates)
		}
		echo(w, r)
	}))
	s := start(t, webhook.Config{URL: server.URL, TLS: server.TLS, BearerToken: "t0ken"})
	for _, word := range []string{"", "hello", "\"<ü>\n"} {
		if got, err := ask(t.Context(), s, word); got != word || err != nil {
			t.Errorf("ask(%q) = %q, %v, want the word back", word, got, err)
		}
	}
}

// TestNoAnswer tests permanent faults: each question is sent once.
func TestNoAnswer(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	const whole = `{"apiVersion":"words.example.com/v1","kind":"Review","status":{"echo":"s3cret"}}`
	writes := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	answers := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); io.WriteString(w, whole) }
	}
	redirects := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(code)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"302":             {redirects(302), "answered 302 Found"},
		"307":             {redirects(307), "answered 307"},
		"308":             {redirects(308), "answered 308"},
		"304":             {answers(304), "answered 304"},
		"400":             {answers(400), "answered 400 Bad Request"},
		"403":             {answers(403), "answered 403 Forbidden"},
		"404":             {answers(404), "answered 404"},
		"nothing":         {writes(""), "not the JSON"},
		"204":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "not the JSON"},
		"a page":          {writes("<html>s3cret</html>"), "not the JSON"},
		"truncated":       {writes(whole[:len(whole)-1]), "not the JSON"},
		"two":             {writes(whole + whole), "not the JSON"},
		"an array":        {writes("[" + whole + "]"), "not the JSON"},
		"null":            {writes("null"), "is no Review"},
		"empty":           {writes("{}"), "is no Review"},
		"another kind":    {writes(strings.Replace(whole, kind, "Preview", 1)), "is no Review"},
		"a Status":        {writes(`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"s3cret"}`), "not the JSON"},
		"another version": {writes(strings.Replace(whole, "v1", "v2", 1)), "is no Review"},
		"no status":       {writes(`{"apiVersion":"words.example.com/v1","kind":"Review","spec":{"word":"s3cret"}}`), "no status"},
		"null status":     {writes(`{"apiVersion":"words.example.com/v1","kind":"Review","status":null}`), "no status"},
		"wrong type":      {writes(strings.Replace(whole, `"s3cret"`, "17", 1)), "not the JSON"},
		"not UTF-8":       {writes(strings.Replace(whole, "s3cret", "\xff", 1)), "not UTF-8"},
		"huge":            {writes(whole + strings.Repeat(" ", webhook.MaxAnswer)), "more than 1048576 bytes"},
		"hangs":           {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline exceeded"},
		"hangs in the body": {func(w http.ResponseWriter, r *http.Request) {
			writes(whole[:9])(w, r)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				io.Copy(io.Discard, r.Body)
				test.handler(w, r)
			}))
			timeout := time.Minute
			if strings.HasPrefix(name, "hangs") {
				t.Parallel()
				timeout = 2 * time.Second // enough for a slow machine to connect and ask
			}
			s := start(t, webhook.Config{URL: server.URL, TLS: server.TLS, BearerToken: "s3cret", Timeout: timeout})
			got, err := ask(t.Context(), s, "s3cret")
			if err == nil || got != "" || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("ask(s3cret) = %q, %v, want an error with %q and without s3cret", got, err, test.want)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("redirects were followed %d times", n)
	}
}

// TestLargestAnswer accepts an answer of the maximum size.
func TestLargestAnswer(t *testing.T) {
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := httptest.NewRecorder()
		echo(body, r)
		io.WriteString(w, body.Body.String()+strings.Repeat(" ", webhook.MaxAnswer-body.Body.Len()))
	}))
	if got, err := ask(t.Context(), start(t, webhook.Config{URL: server.URL, TLS: server.TLS}), "a"); got != "a" || err != nil {
		t.Error(got, err)
	}
}

func TestCertificates(t *testing.T) {
	server := webhooktest.Start(t, http.HandlerFunc(echo))
	other := webhooktest.Start(t, http.HandlerFunc(echo))
	named := server.TLS.Clone()
	named.ServerName = "other"
	for name, c := range map[string]*tls.Config{"another authority": other.TLS, "the system's authorities": nil, "another name": named} {
		before := server.Connections.Load()
		got, err := ask(t.Context(), start(t, webhook.Config{URL: server.URL, TLS: c}), "a")
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || got != "" {
			t.Errorf("ask with %s = %q, %v, want a CertificateVerificationError", name, got, err)
		}
		if n := server.Connections.Load() - before; n != 1 {
			t.Errorf("%s: %d connections: no certificate gets better by trying again", name, n)
		}
	}
}

// TestClientCertificates presents no certificate of the service's authority. The client receives
// the refusal after its own handshake, in whatever way the connection ends.
func TestClientCertificates(t *testing.T) {
	var asked atomic.Int32
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		echo(w, r)
	}))
	other := webhooktest.Start(t, http.HandlerFunc(echo))
	for name, test := range map[string]struct {
		config *tls.Config
		alert  string
	}{
		"none":    {&tls.Config{RootCAs: server.Roots}, "remote error: tls: certificate required"},
		"another": {&tls.Config{RootCAs: server.Roots, Certificates: other.TLS.Certificates}, "remote error: tls: unknown certificate authority"},
	} {
		before := server.Connections.Load()
		got, err := ask(t.Context(), start(t, webhook.Config{URL: server.URL, TLS: test.config}), "a")
		if err == nil || got != "" || !strings.Contains(err.Error(), test.alert) && !closed(err) {
			t.Errorf("ask with the client certificate %s = %q, %v, want the error %q or that of a closed connection", name, got, err, test.alert)
		}
		if server.Connections.Load() == before {
			t.Errorf("ask with the client certificate %s has not connected: %v", name, err)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d questions were let in", n)
	}
}

// closed reports whether err is the end of a connection that the server has closed.
func closed(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		strings.Contains(err.Error(), "http2: client conn") // net/http has no types for these
}

func TestNewRefuses(t *testing.T) {
	const badURL, badToken = "the URL must be https://", "the bearer token has characters that no header can carry"
	for name, test := range map[string]struct {
		config webhook.Config
		want   string
	}{
		"no URL":             {webhook.Config{}, badURL},
		"http":               {webhook.Config{URL: "http://example.com"}, badURL},
		"a path":             {webhook.Config{URL: "/review"}, badURL},
		"no host":            {webhook.Config{URL: "https:///review"}, badURL},
		"unparsable":         {webhook.Config{URL: "https://jane:s3cret@exa mple.com:-1"}, "the URL cannot be parsed"},
		"credentials":        {webhook.Config{URL: "https://jane:s3cret@example.com"}, "the URL has credentials in it"},
		"negative timeout":   {webhook.Config{URL: "https://example.com", Timeout: -1}, "the timeout is negative"},
		"two transports":     {webhook.Config{URL: "https://example.com", TLS: &tls.Config{}, Transport: http.DefaultTransport}, "both a transport and TLS are set"},
		"a token of lines":   {webhook.Config{URL: "https://example.com", BearerToken: "s3cret\n"}, badToken},
		"a token with space": {webhook.Config{URL: "https://example.com", BearerToken: "s3cret s3cret"}, badToken},
	} {
		if _, err := webhook.New(test.config); err == nil || err.Error() != test.want {
			t.Errorf("New with %s = %v, want %s", name, err, test.want)
		}
	}
}

// FuzzAnswer accepts only a Review with a status.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", `{"apiVersion":"words.example.com/v1","kind":"Review","status":{"echo":"a"}}`,
		`{"apiVersion":"words.example.com/v1","kind":"Review","status":{}}`, `{"kind":"Review","status":{}}`, `[`, "\xff"} {
		f.Add([]byte(seed))
	}
	var body []byte
	s, err := webhook.New(webhook.Config{URL: "https://example.com", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(body)))}, nil
	})})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		got, err := ask(t.Context(), s, "a")
		if err != nil {
			if got != "" {
				t.Fatalf("%q with %v", got, err)
			}
			return
		}
		var answer map[string]any
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatalf("%q counts", data)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
