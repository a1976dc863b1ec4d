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
	// usualEvery is how often kube-apiserver looks at the file.
	usualEvery = time.Minute
	// readyTimeout is how long the issuers of another configuration may take to be
	// found before the old one stays; kube-apiserver's figure.
	readyTimeout = time.Minute
)

// Config says which configuration is followed. Read must be set.
type Config struct {
	// Read returns the configuration, mostly a file's contents.
	Read func() ([]byte, error)
	// Disallowed are issuers that it must not have, see [Parse].
	Disallowed []string
	// Every is how often Run reads; zero is once a minute.
	Every time.Duration
	// Transport, if not nil, is how issuers are reached, in place of TLS with the
	// authorities of the configuration.
	Transport http.RoundTripper
	// Log is told of configurations that cannot be used and issuers that cannot be
	// reached. Zero is silent.
	Log logr.Logger
}

// Authenticator believes the issuers of a configuration as it is now. It is an
// authn.Authenticator.
type Authenticator struct {
	config    Config
	anonymous *Anonymous
	current   atomic.Pointer[generation]
	ran       atomic.Bool
}

// A generation is what one state of the configuration has made.
type generation struct {
	data []byte
	// people is nil where no issuer is believed.
	people *oidc.Authenticator
}

// New reads the configuration for the first time. Tokens are refused until Run has
// found the keys of their issuers.
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

// Anonymous is what the configuration says of requests without credentials, and
// nil if it says nothing. It stays as it was at first, as in kube-apiserver.
func (a *Authenticator) Anonymous() *Anonymous { return a.anonymous }

// Authenticate asks the issuers of the configuration as it is now.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if people := a.current.Load().people; people != nil {
		return people.Authenticate(r)
	}
	return nil, false, nil
}

// make does not start anything.
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

// start finds and keeps the keys of the issuers until stop, which waits.
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
		g.people.Run(ctx) // which fails only where it ran before
	}()
	return g.people.Ready(), func() {
		cancel()
		<-ended
	}
}

// Run keeps the keys of the issuers, and follows the configuration, until ctx ends.
// Another configuration takes the place of the old one when all its issuers have
// been found; one that cannot be used, or whose issuers do not answer in a minute,
// is logged and changes nothing, and the next look tries again. Run may be called
// once.
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

// read returns nil where the configuration is as it was.
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
