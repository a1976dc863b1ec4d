package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Config configures a Proxy. The zero Config is useful.
type Config struct {
	// Connect is how long a connection to an endpoint may take; zero means 5 seconds.
	Connect time.Duration
	// Answer is how long an endpoint may take until the header of its answer; zero means a minute.
	Answer time.Duration
	// Stall is how long a client may take to send or receive the next part of a body; zero means a minute.
	Stall time.Duration
	// Dial makes connections to endpoints; nil means those of a net.Dialer. A *net.OpError with Op "dial"
	// means that the endpoint got nothing.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log receives requests that failed at V(1). It is silent when zero.
	Log logr.Logger
}

// A Proxy passes requests to the endpoints of services. Its methods are safe for concurrent use.
type Proxy struct {
	config    Config
	table     atomic.Pointer[Table]
	reverse   *httputil.ReverseProxy
	transport *http.Transport

	// writing guards the replacement of pools.
	writing sync.Mutex
	pools   sync.Map // of *pool by the key of the service

	certificates sync.Map // of *tls.Certificate by the key of the secret
}

// NewProxy checks a configuration and returns a proxy with an empty table.
func NewProxy(c Config) (*Proxy, error) {
	if min(c.Connect, c.Answer, c.Stall) < 0 {
		return nil, fmt.Errorf("router: Connect, Answer, Stall: %v, %v, %v: negative", c.Connect, c.Answer, c.Stall)
	}
	c.Connect, c.Answer, c.Stall = cmp.Or(c.Connect, 5*time.Second), cmp.Or(c.Answer, time.Minute), cmp.Or(c.Stall, time.Minute)
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	p := &Proxy{config: c, transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, c.Connect)
			defer cancel()
			return c.Dial(ctx, network, address)
		},
		ResponseHeaderTimeout: c.Answer,
		MaxIdleConnsPerHost:   64, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}}
	p.table.Store(NewTable(nil))
	p.reverse = &httputil.ReverseProxy{Rewrite: rewrite, Transport: p, ErrorHandler: p.fail}
	return p, nil
}

// Close closes idle connections to endpoints.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// SetTable replaces the table. Requests in progress keep their backend.
func (p *Proxy) SetTable(t *Table) { p.table.Store(t) }

// Table returns the table.
func (p *Proxy) Table() *Table { return p.table.Load() }

// SetService replaces the endpoints of a service, by its key. Nil removes the service.
func (p *Proxy) SetService(key string, addresses Addresses) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if addresses == nil {
		p.pools.Delete(key)
		return
	}
	next := p.pool(key).update(addresses)
	p.pools.Store(key, &next)
}

func (p *Proxy) pool(key string) pool {
	if known, ok := p.pools.Load(key); ok {
		return *known.(*pool)
	}
	return nil
}

// A passage describes a request to its RoundTrip. It is in the context of the request.
type passage struct {
	backend Backend
	upload  *upload // nil without a body
}

type passageKey struct{}

func passageOf(r *http.Request) passage { return r.Context().Value(passageKey{}).(passage) }

// ServeHTTP passes a request on.
func (p *Proxy) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w := &download{ResponseWriter: to, control: http.NewResponseController(to), stall: p.config.Stall}
	w.setDeadline(0) // that of the answer before on the connection
	defer w.finish()
	if r.Method == http.MethodConnect {
		http.Error(w, "this is no proxy for other hosts", http.StatusMethodNotAllowed)
		return
	}
	if _, ok := clean(r.URL.Path); !ok {
		http.Error(w, "the path must be absolute, without elements . or ..", http.StatusBadRequest)
		return
	}
	var ok bool
	var pass passage
	if pass.backend, ok = p.Table().Find(r.Host, r.URL.Path); !ok {
		http.Error(w, "no ingress has a rule for this host and path", http.StatusNotFound)
		return
	}
	body := r.Body
	if body != nil && body != http.NoBody {
		pass.upload = &upload{ReadCloser: body, control: w.control, stall: p.config.Stall}
		defer pass.upload.finish()
		body = pass.upload
	}
	out := r.WithContext(context.WithValue(r.Context(), passageKey{}, pass))
	out.Body = body
	p.reverse.ServeHTTP(w, out)
}

// rewrite sets the headers of a request to an endpoint. The client's own X-Forwarded headers are gone.
func rewrite(r *httputil.ProxyRequest) {
	r.SetXForwarded()
	port := "80"
	if r.In.TLS != nil {
		port = "443"
	}
	if _, given, err := net.SplitHostPort(r.In.Host); err == nil {
		port = given
	}
	r.Out.Header.Set("X-Forwarded-Port", port)
	r.Out.URL.Scheme = "http"
	r.Out.URL.RawQuery = r.In.URL.RawQuery // as it is, whether it can be parsed or not
}

var errNoEndpoint = errors.New("the service has no ready endpoint")

// attempts bounds the endpoints to which a request is sent.
const attempts = 3

// RoundTrip sends a request to an endpoint of the backend in its context. It is for the ReverseProxy of p,
// and leaves the body open, which belongs to the server.
func (p *Proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	backend := passageOf(r).backend
	port := backend.Port.Name
	if port == "" {
		port = strconv.Itoa(int(backend.Port.Number))
	}
	var tried []*endpoint
	err := errNoEndpoint
	for range attempts {
		// The endpoints may be others than before: in a rollout, all that the first attempt knew may be gone.
		e := p.pool(backend.Service)[port].next(time.Now(), tried)
		if e == nil {
			break
		}
		tried = append(tried, e)
		var answer *http.Response
		body := &unsent{ReadCloser: r.Body}
		if answer, err = p.transport.RoundTrip(requestTo(r, e.address, body)); err == nil {
			return answer, nil
		}
		p.config.Log.V(1).Info("an endpoint did not answer", "service", backend.Service, "endpoint", e.address, "error", err.Error())
		refused, ok := errors.AsType[*net.OpError](err)
		dialed := ok && refused.Op == "dial"
		if r.Context().Err() != nil {
			break
		}
		if dialed {
			e.avoided.Store(time.Now().Add(avoidance).UnixNano())
		}
		if !body.retry(r, dialed) || isTimeout(err) && !dialed {
			break
		}
	}
	return nil, err
}

// requestTo returns the request for one endpoint, with a body that outlives it.
func requestTo(r *http.Request, address string, body *unsent) *http.Request {
	out := r.WithContext(r.Context())
	target := *r.URL
	target.Host = address
	out.URL = &target
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = body
	}
	return out
}

// fail answers a request for which there is no answer.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, text := http.StatusBadGateway, "the backend cannot be reached"
	switch {
	case errors.Is(err, errNoEndpoint):
		code, text = http.StatusServiceUnavailable, errNoEndpoint.Error()
	case passageOf(r).upload != nil && passageOf(r).upload.stalled.Load():
		code, text = http.StatusRequestTimeout, "the rest of the body has not come"
	case isTimeout(err):
		code, text = http.StatusGatewayTimeout, "the backend did not answer in time"
	}
	p.config.Log.V(1).Info("a request failed", "host", r.Host, "code", code, "error", err.Error())
	http.Error(w, text, code)
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
