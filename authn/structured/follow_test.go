package structured_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/authn/structured"
)

// TestFollow: a configuration takes the place of another when its issuers answer,
// and only then.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newIssuer(t, "https://op.example.com"), newIssuer(t, "https://two.example.com")
		reachable := network{"op.example.com": first}
		other := strings.Replace(one(named), "op.example.com", "two.example.com", 1)
		var text atomic.Value
		text.Store(one(named))
		var logged atomic.Value
		logged.Store("")
		a, stop := follow(t, structured.Config{
			Read: func() ([]byte, error) {
				if s := text.Load().(string); s != "" {
					return []byte(s), nil
				}
				return nil, errors.New("the disk is gone")
			},
			Transport: reachable,
			Log:       funcr.New(func(_, line string) { logged.Store(logged.Load().(string) + line + "\n") }, funcr.Options{}),
		})
		defer stop()
		of := func(i *issuer, name string) string { return who(t, a, i.sign(t, map[string]any{"sub": name})) }
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		check := func(step, ofFirst, ofSecond, log string) {
			t.Helper()
			if got := of(first, "jane"); got != ofFirst {
				t.Errorf("%s: %s, want %s", step, got, ofFirst)
			}
			if got := of(second, "joe"); got != ofSecond {
				t.Errorf("%s: %s, want %s", step, got, ofSecond)
			}
			if lines := logged.Swap("").(string); !strings.Contains(lines, log) {
				t.Errorf("%s: logged %s, want %s", step, lines, log)
			}
		}
		wait(time.Second)
		check("at first", "jane  [] map[]", "not mine", "")
		text.Store(other)
		wait(90 * time.Second)
		check("nobody answers yet", "jane  [] map[]", "not mine", "")
		wait(time.Minute)
		check("nobody answers", "jane  [] map[]", "not mine", "issuers of the authentication configuration cannot be reached")
		for step, bad := range map[string]string{"no file": "", "nonsense": "{", "no name": one(fine), "anonymous": header + "anonymous: {enabled: true}"} {
			text.Store(bad)
			wait(2 * time.Minute)
			check(step, "jane  [] map[]", "not mine", "the authentication configuration cannot be used")
		}
		text.Store(header)
		wait(2 * time.Minute)
		check("no issuers", "not mine", "not mine", "reloaded")
		text.Store(one(named))
		wait(2 * time.Minute)
		check("again", "jane  [] map[]", "not mine", "reloaded")
	})
}

// TestFollowSwitches: the new issuer is believed and the old one is not.
func TestFollowSwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newIssuer(t, "https://op.example.com"), newIssuer(t, "https://two.example.com")
		var text atomic.Value
		text.Store(one(named))
		a, stop := follow(t, structured.Config{
			Read: func() ([]byte, error) { return []byte(text.Load().(string)), nil }, Every: 10 * time.Second,
			Transport: network{"op.example.com": first, "two.example.com": second},
		})
		defer stop()
		time.Sleep(time.Second)
		synctest.Wait()
		old := first.sign(t, map[string]any{"sub": "jane"})
		if got := who(t, a, old); got != "jane  [] map[]" {
			t.Error(got)
		}
		text.Store(strings.Replace(one(named), "op.example.com", "two.example.com", 1))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := who(t, a, old); got != "not mine" {
			t.Error(got)
		}
		if got := who(t, a, second.sign(t, map[string]any{"sub": "joe"})); got != "joe  [] map[]" {
			t.Error(got)
		}
		before := first.asked.Load()
		time.Sleep(3 * time.Hour) // in which the new one is asked again and again
		synctest.Wait()
		if now := first.asked.Load(); now != before {
			t.Errorf("the old issuer was asked %d times more", now-before)
		}
		if err := a.Run(t.Context()); err == nil {
			t.Error("it runs twice")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]structured.Config{
		"nothing to read": {},
		"no file":         {Read: func() ([]byte, error) { return nil, errors.New("gone") }},
		"nonsense":        {Read: read("{")},
		"negative":        {Read: read(header), Every: -1},
	} {
		if _, err := structured.New(c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	a, err := structured.New(structured.Config{Read: read(header + "anonymous: {enabled: true, conditions: [{path: /livez}]}")})
	if err != nil || a.Anonymous() == nil || a.Anonymous().Paths[0] != "/livez" {
		t.Errorf("New = %+v, %v, want anonymous requests of /livez", a, err)
	}
}
