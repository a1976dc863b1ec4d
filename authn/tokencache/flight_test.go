package tokencache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/tokencache"
	"github.com/planekit/planekit/authn/user"
)

// hook is a slow authenticator: it answers after a time, if its context lets it.
type hook struct {
	takes, ends time.Duration // ends is how long it takes to give up
	asked, over atomic.Int32
}

func (h *hook) Authenticate(r *http.Request) (*user.Info, bool, error) {
	h.asked.Add(1)
	defer h.over.Add(1)
	select {
	case <-time.After(h.takes):
		token, _, _ := authn.BearerToken(r)
		return &user.Info{Name: "of " + token}, true, nil
	case <-r.Context().Done():
		time.Sleep(h.ends)
		return nil, false, errors.New("cut off") // which does not say that it is the context's
	}
}

// TestSingleFlight: concurrent requests for one token share one call, other tokens do not wait, and
// a caller that gives up does not affect the rest.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hook{takes: 5 * time.Second}
		c := must(tokencache.New(tokencache.Config{Authenticator: h, FailureTTL: time.Hour}))
		start := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				token := fmt.Sprint("token-", i%2)
				ctx, cancel := context.WithCancel(t.Context())
				if i < 2 { // who asked first
					ctx, cancel = context.WithTimeout(ctx, time.Second)
				}
				defer cancel()
				u, known, err := c.Authenticate(bearer(ctx, token))
				if i < 2 {
					if known || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, authn.ErrUnchecked) {
						t.Errorf("%d, who gave up: %v, %v, %v", i, u, known, err)
					}
					return
				}
				if !known || u.Name != "of "+token {
					t.Errorf("%d: Authenticate = %v, %v, %v, want %q", i, u, known, err, "of "+token)
				}
				if took := time.Since(start); took > 5*time.Second+time.Millisecond {
					t.Errorf("%d: answered after %v", i, took)
				}
			})
		}
		all.Wait()
		if n := h.asked.Load(); n != 2 {
			t.Errorf("asked %d times about two tokens", n)
		}
	})
}

// TestCallWithoutCallersEnds: a call that no caller waits for is cancelled, answers no later request, and is
// not cached as a refusal.
func TestCallWithoutCallersEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hook{takes: 5 * time.Second, ends: 2 * time.Second}
		c := must(tokencache.New(tokencache.Config{Authenticator: h, FailureTTL: time.Hour}))
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { c.Authenticate(bearer(ctx, "s3cret")) })
		}
		synctest.Wait()
		cancel()
		both.Wait()
		synctest.Wait()
		time.Sleep(time.Second) // the first question is still giving up
		if h.asked.Load() != 1 || h.over.Load() != 0 {
			t.Errorf("asked %d times, %d over", h.asked.Load(), h.over.Load())
		}
		if u, known, err := c.Authenticate(bearer(t.Context(), "s3cret")); !known || h.asked.Load() != 2 {
			t.Errorf("%v, %v, %v; asked %d times", u, known, err, h.asked.Load())
		}
	})
}

// TestTimeout: an answer that does not come is none, even if the authenticator does
// not care for its context, and it is asked no second time meanwhile.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		stuck := authn.Func(func(*http.Request) (*user.Info, bool, error) {
			asked.Add(1)
			time.Sleep(time.Minute)
			return &user.Info{Name: "jane"}, true, nil
		})
		c := must(tokencache.New(tokencache.Config{Authenticator: stuck, Timeout: 3 * time.Second}))
		start := time.Now()
		if _, known, err := c.Authenticate(bearer(t.Context(), "s3cret")); known || !errors.Is(err, authn.ErrUnchecked) || time.Since(start) != 3*time.Second {
			t.Errorf("known %v, error %v after %v", known, err, time.Since(start))
		}
		time.Sleep(time.Minute)
		if u, known, err := c.Authenticate(bearer(t.Context(), "s3cret")); known && u.Name != "jane" || !known && !errors.Is(err, authn.ErrUnchecked) {
			t.Errorf("Authenticate = %v, %v, %v, want jane if known, else %v", u, known, err, authn.ErrUnchecked)
		}
		time.Sleep(time.Hour)
	})
}

// TestPanics: an authenticator that panics or ends its goroutine is reported and affects no other
// call. The value of the panic is not reported.
func TestPanics(t *testing.T) {
	for name, act := range map[string]func(){
		"panic": func() { panic("s3cret") }, "nil": func() { panic(nil) }, "exit": runtime.Goexit,
	} {
		bad := true
		var stack []byte
		c := must(tokencache.New(tokencache.Config{
			FailureTTL: time.Hour,
			Panicked:   func(s []byte) { stack = s },
			Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) {
				if bad {
					act()
				}
				return &user.Info{Name: "jane"}, true, nil
			}),
		}))
		_, known, err := c.Authenticate(bearer(t.Context(), "s3cret"))
		if known || !errors.Is(err, authn.ErrUnchecked) || bytes.Contains([]byte(err.Error()), []byte("s3cret")) {
			t.Errorf("%s: known %v, error %v", name, known, err)
		}
		if (name != "exit") != bytes.Contains(stack, []byte("TestPanics")) || bytes.Contains(stack, []byte("s3cret")) {
			t.Errorf("%s: stack %s", name, stack)
		}
		bad = false
		if _, known, err := c.Authenticate(bearer(t.Context(), "s3cret")); !known {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// TestModel asks about random tokens at random times, and compares with a plain
// map: within their time answers stay, after it they are those of the moment.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		const success, failure = 10 * time.Second, 4 * time.Second
		type said struct {
			user  string
			until time.Time
		}
		truth, model := map[string]string{}, map[string]said{}
		asked := 0
		refused := errors.New("refused")
		c := must(tokencache.New(tokencache.Config{
			SuccessTTL: success, FailureTTL: failure,
			Authenticator: authn.Func(func(r *http.Request) (*user.Info, bool, error) {
				asked++
				token, _, _ := authn.BearerToken(r)
				if name := truth[token]; name != "" {
					return &user.Info{Name: name}, true, nil
				}
				return nil, false, refused
			}),
		}))
		for step := range 5000 {
			token := fmt.Sprint(random.IntN(20))
			switch random.IntN(4) {
			case 0:
				truth[token] = fmt.Sprint("user-", step)
			case 1:
				delete(truth, token)
			}
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			now, want, before := time.Now(), model[token], asked
			fresh := !now.Before(want.until)
			if fresh {
				want = said{truth[token], now.Add(failure)}
				if want.user != "" {
					want.until = now.Add(success)
				}
				model[token] = want
			}
			u, known, err := c.Authenticate(bearer(t.Context(), token))
			if known != (want.user != "") || known && u.Name != want.user || !known && err != refused || (asked > before) != fresh {
				t.Fatalf("step %d: %v, %v, %v, want %+v; asked %v, want %v", step, u, known, err, want, asked > before, fresh)
			}
		}
	})
}

// TestBounded: no number of tokens takes more room than is allowed, and guesses do
// not drive out what is known.
func TestBounded(t *testing.T) {
	var asked atomic.Int32
	c := must(tokencache.New(tokencache.Config{
		SuccessTTL: time.Hour, FailureTTL: time.Hour, MaxTokens: 8,
		Authenticator: authn.Func(func(r *http.Request) (*user.Info, bool, error) {
			asked.Add(1)
			token, _, _ := authn.BearerToken(r)
			return &user.Info{Name: token}, token[0] == 'g', nil
		}),
	}))
	ask := func(format string, n int) int {
		before := asked.Load()
		for i := range n {
			c.Authenticate(bearer(t.Context(), fmt.Sprintf(format, i)))
		}
		return int(asked.Load() - before)
	}
	for what, test := range map[string]struct{ asked, want int }{
		"good": {ask("good-%d", 8), 8}, "guesses": {ask("bad-%d", 1000), 1000}, "good again": {ask("good-%d", 8), 0},
	} {
		if test.asked != test.want {
			t.Errorf("%s: asked %d times, want %d", what, test.asked, test.want)
		}
	}
	ask("good-%d", 1000)
	if n := ask("good-%d", 1000); n < 1000-8 {
		t.Errorf("asked about %d of 1000 tokens again", n)
	}
}

// TestTogether is for the race detector.
func TestTogether(t *testing.T) {
	c := must(tokencache.New(tokencache.Config{
		SuccessTTL: time.Nanosecond, MaxTokens: 2,
		Authenticator: authn.Func(func(r *http.Request) (*user.Info, bool, error) {
			token, _, _ := authn.BearerToken(r)
			return &user.Info{Name: token}, true, nil
		}),
	}))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				token := fmt.Sprint((i + j) % 5)
				ctx, cancel := context.WithCancel(t.Context())
				if j%7 == 0 {
					cancel()
				}
				u, known, err := c.Authenticate(bearer(ctx, token))
				cancel()
				if known && u.Name != token || !known && !errors.Is(err, context.Canceled) {
					t.Errorf("Authenticate = %v, %v, %v, want %q if known, else %v", u, known, err, token, context.Canceled)
				}
			}
		})
	}
	all.Wait()
}
