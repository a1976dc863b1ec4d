// Package reload keeps a value read from a file current: authorities, tokens, passwords.
//
//	tokens, err := reload.New(reload.Config[*tokenfile.Authenticator]{
//		Read:   func() ([]byte, error) { return os.ReadFile(file) },
//		Parse:  tokenfile.Read,
//		Failed: func(err error) { log.Error(err, "token file") },
//	})
//	chain := authn.Chain{reload.Authenticator(tokens)}
//	go tokens.Run(ctx)
//
// If the file cannot be read or parsed, the last valid value stays, and Run calls Failed each time.
// New fails without a first value, so there is always one. The contents are compared by a hash, and
// only the hash is kept. Replace a file by a rename: a file that is written in place may be read
// while it is incomplete.
package reload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/lastvalid"
)

// Config configures a Value. Read and Parse are required.
type Config[T any] struct {
	// Read returns the contents of the file.
	Read func() ([]byte, error)
	// Parse makes a value from the contents. Its errors must not quote secrets.
	Parse func([]byte) (T, error)
	// Every is the interval of Run; zero means one minute, as in kube-apiserver without file
	// notifications.
	Every time.Duration
	// Changed, if set, is called after each change. It must not call Reload.
	Changed func()
	// Failed, if set, is called by Run when the file could not be read or parsed and the value
	// stayed the same.
	Failed func(error)
}

// Value is the current value of a file. Its methods are safe for concurrent use.
type Value[T any] struct {
	config Config[T]
	value  *lastvalid.Value[T]
}

// New returns a value and reads it for the first time.
func New[T any](c Config[T]) (*Value[T], error) {
	switch {
	case c.Read == nil || c.Parse == nil:
		return nil, errors.New("reload: Read and Parse must be set")
	case c.Every < 0:
		return nil, errors.New("reload: Every is negative")
	case c.Every == 0:
		c.Every = time.Minute
	}
	value, err := lastvalid.New(func() ([][]byte, error) {
		data, err := c.Read()
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		return [][]byte{data}, nil
	}, func(contents [][]byte) (T, error) {
		value, err := c.Parse(contents[0])
		if err != nil {
			return value, fmt.Errorf("parse: %w", err)
		}
		return value, nil
	})
	if err != nil {
		return nil, err
	}
	return &Value[T]{config: c, value: value}, nil
}

// Current returns the current value. It is the same one as long as the file does not change.
func (v *Value[T]) Current() T { return v.value.Current() }

// Reload reads the file now, for programs that are notified of changes. If it fails, the value
// stays the same.
func (v *Value[T]) Reload() error {
	changed, err := v.value.Refresh()
	if changed && v.config.Changed != nil {
		v.config.Changed()
	}
	return err
}

// Run reads the file at intervals until ctx ends, then returns nil.
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

// Authenticator returns an authenticator that uses the current value of v for each request.
func Authenticator[T authn.Authenticator](v *Value[T]) authn.Authenticator {
	return authn.Func(func(r *http.Request) (*user.Info, bool, error) { return v.Current().Authenticate(r) })
}
