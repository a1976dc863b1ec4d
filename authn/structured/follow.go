package structured

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/oidc"
	"github.com/planekit/planekit/authn/user"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// usualEvery is the interval at which kube-apiserver reads the file.
	usualEvery = time.Minute
	// readyTimeout is how long the issuers of a new configuration may take to provide their keys
	// before the old one stays. It is kube-apiserver's value.
	readyTimeout = time.Minute
)

// Config configures an Authenticator. Read is required.
type Config struct {
	// Read returns the configuration, usually from a file.
	Read func() ([]byte, error)
	// Disallowed are issuers that the configuration must not contain; see [Parse].
	Disallowed []string
	// Every is the interval at which Run reads; zero means one minute.
	Every time.Duration
	// Transport, if not nil, replaces TLS connections with the authorities of the configuration.
	Transport http.RoundTripper
	// Log receives invalid configurations and failures to reach an issuer. The zero Logger discards
	// them.
	Log logr.Logger
}

// Authenticator trusts the issuers of the current configuration. It is an authn.Authenticator.
type Authenticator struct {
	config    Config
	anonymous *Anonymous
	current   atomic.Pointer[generation]
	ran       atomic.Bool
}

// A generation is the state for one version of the configuration.
type generation struct {
	data []byte
	// people is nil if there are no issuers.
	people *oidc.Authenticator
}

// New reads the configuration for the first time. Tokens are refused until Run has fetched the keys
// of their issuers.
func New(c Config) (*Authenticator, error) {
	switch {
	case c.Read == nil:
		return nil, errors.New("structured authentication: Read must be set")
	case c.Every < 0:
		return nil, errors.New("structured authentication: Every is negative")
	case c.Every == 0:
		c.Every = usualEvery
	}
	a := &Authenticator{config: c}
	data, err := c.Read()
	if err != nil {
		return nil, err
	}
	s, err := Parse(data, c.Disallowed...)
	if err != nil {
		return nil, err
	}
	a.anonymous = s.Anonymous
	first, err := a.make(data, s)
	a.current.Store(first)
	return a, err
}

// Anonymous returns the settings for requests without credentials, or nil if the configuration has
// none. They do not follow changes, as in kube-apiserver.
func (a *Authenticator) Anonymous() *Anonymous { return a.anonymous }

// Authenticate asks the issuers of the current configuration.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if people := a.current.Load().people; people != nil {
		return people.Authenticate(r)
	}
	return nil, false, nil
}

// make builds a generation without starting it.
func (a *Authenticator) make(data []byte, s Settings) (*generation, error) {
	g := &generation{data: data}
	if len(s.Issuers) == 0 {
		return g, nil
	}
	for i := range s.Issuers {
		if a.config.Transport != nil {
			s.Issuers[i].Transport, s.Issuers[i].Roots = a.config.Transport, nil
		}
	}
	var err error
	g.people, err = oidc.New(oidc.Config{Issuers: s.Issuers, Log: a.config.Log})
	return g, err
}

// start fetches the keys of the issuers and keeps them current until stop is called, which waits.
func (g *generation) start(ctx context.Context) (ready <-chan struct{}, stop func()) {
	if g.people == nil {
		none := make(chan struct{})
		close(none)
		return none, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.people.Run(ctx) // fails only if it has run before
	}()
	return g.people.Ready(), func() {
		cancel()
		<-ended
	}
}

// Run keeps the keys of the issuers current and follows the configuration until ctx ends. A new
// configuration replaces the old one when all its issuers have provided their keys. One that is
// invalid, or whose issuers do not answer within a minute, is logged and not used, and Run tries
// again at the next interval. Run may be called once.
func (a *Authenticator) Run(ctx context.Context) error {
	if a.ran.Swap(true) {
		return errors.New("structured authentication: Run was called before")
	}
	_, stop := a.current.Load().start(ctx)
	defer func() { stop() }()
	ticker := time.NewTicker(a.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		next, err := a.read()
		if err != nil {
			a.config.Log.Error(err, "the authentication configuration cannot be used; what it said before stays")
			continue
		}
		if next == nil {
			continue
		}
		ready, stopNext := next.start(ctx)
		if err := await(ctx, ready); err != nil {
			stopNext()
			if ctx.Err() == nil {
				a.config.Log.Error(err, "issuers of the authentication configuration cannot be reached; what it said before stays")
			}
			continue
		}
		a.current.Store(next)
		stop()
		stop = stopNext
		a.config.Log.Info("authentication configuration reloaded")
	}
}

// read returns a new generation, or nil if the configuration has not changed.
func (a *Authenticator) read() (*generation, error) {
	data, err := a.config.Read()
	if err != nil {
		return nil, err
	}
	if bytes.Equal(data, a.current.Load().data) {
		return nil, nil
	}
	s, err := Parse(data, a.config.Disallowed...)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(s.Anonymous, a.anonymous) {
		return nil, field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file")
	}
	return a.make(data, s)
}

func await(ctx context.Context, ready <-chan struct{}) error {
	timer := time.NewTimer(readyTimeout)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("keys were not found within %s", readyTimeout)
	}
}
