// Package reload keeps what was read from a file up to date with the file:
// authorities, tokens, passwords.
//
//	tokens, err := reload.New(reload.Config[*tokenfile.Authenticator]{
//		Read:   func() ([]byte, error) { return os.ReadFile(file) },
//		Parse:  tokenfile.Read,
//		Failed: func(err error) { log.Error(err, "token file") },
//	})
//	chain := authn.Chain{reload.Authenticator(tokens)}
//	go tokens.Run(ctx)
//
// What cannot be read or parsed changes nothing: the last good value stays, and
// Failed is told each time. There is a value from the start, for New fails
// without one. The file is compared by its contents, of which only a hash is
// kept. A file should be replaced by a rename: of one that is written in place,
// half may be read, until the next time.
package reload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
)

// Config says what is read. Read and Parse must be set.
type Config[T any] struct {
	// Read returns the contents of the file.
	Read func() ([]byte, error)
	// Parse makes a value of them. Its errors must not quote secrets.
	Parse func([]byte) (T, error)
	// Every is how often Run reads; zero is once a minute, as kube-apiserver does
	// where nothing tells it of changes.
	Every time.Duration
	// Changed, if set, is called after each change. It must not call Reload.
	Changed func()
	// Failed, if set, is told by Run when the file could not be read or parsed and
	// the value stayed as it was.
	Failed func(error)
}

// Value is what was last read. Its methods may be called by many at a time.
type Value[T any] struct {
	config  Config[T]
	current atomic.Pointer[T]

	mu   sync.Mutex
	seen [sha256.Size]byte // hash of what current was made of, zero before; guarded by mu
}

// New reads for the first time.
func New[T any](c Config[T]) (*Value[T], error) {
	switch {
	case c.Read == nil || c.Parse == nil:
		return nil, errors.New("reload: Read and Parse must be set")
	case c.Every < 0:
		return nil, errors.New("reload: Every is negative")
	case c.Every == 0:
		c.Every = time.Minute
	}
	v := &Value[T]{config: c}
	if _, err := v.read(); err != nil {
		return nil, err
	}
	return v, nil
}

// Current returns the value as of now, and the same one as long as the file does
// not change.
func (v *Value[T]) Current() T { return *v.current.Load() }

// Reload reads at once, for programs that learn of changes themselves. When it
// fails, the value stays.
func (v *Value[T]) Reload() error {
	changed, err := v.read()
	if changed && v.config.Changed != nil {
		v.config.Changed()
	}
	return err
}

// read reports whether there is another value than before.
func (v *Value[T]) read() (changed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	data, err := v.config.Read()
	if err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	hash := sha256.Sum256(data)
	if hash == v.seen {
		return false, nil
	}
	value, err := v.config.Parse(data)
	if err != nil {
		return false, fmt.Errorf("parse: %w", err)
	}
	v.seen = hash
	v.current.Store(&value)
	return true, nil
}

// Run reads again and again until ctx ends, and then returns nil.
func (v *Value[T]) Run(ctx context.Context) error {
	ticker := time.NewTicker(v.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := v.Reload(); err != nil && v.config.Failed != nil {
				v.config.Failed(err)
			}
		}
	}
}

// Authenticator asks the authenticator that v is at the moment of each request.
func Authenticator[T authn.Authenticator](v *Value[T]) authn.Authenticator {
	return authn.Func(func(r *http.Request) (*user.Info, bool, error) { return v.Current().Authenticate(r) })
}
