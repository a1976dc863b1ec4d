package cni_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/cni"
)

// put writes a file of a configuration directory, which it makes if it is missing.
func put(t *testing.T, path, data string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(data), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestPluginsInFilesOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "net", "20-second.conf"), `{"type":"c"}`)
	put(t, filepath.Join(dir, "net", "10-first.conf"), `{"type":"b","capabilities":{"mac":true}}`)
	put(t, filepath.Join(dir, "net", "15-not.json"), `{"type":"x"}`)
	for conf, want := range map[string]string{
		`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"a"}]}`:                                 "a b c",
		`{"cniVersion":"1.1.0","name":"net"}`:                                                          "b c",
		`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"a"}],"loadOnlyInlinedPlugins":true}`:   "a",
		`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"a"}],"loadOnlyInlinedPlugins":"True"}`: "a",
		`{"cniVersion":"1.1.0","name":"net","type":"a"}`:                                               "a",
		`{"cniVersion":"1.1.0","name":"other","plugins":[{"type":"a"}]}`:                               "a",
		`{"cniVersion":"1.1.0","name":"other"}`:                                                        "error: no plugins",
		`{"cniVersion":"1.1.0","name":"net","plugins":[]}`:                                             "error: no plugins",
		`{"cniVersion":"1.1.0","name":"net","loadOnlyInlinedPlugins":true}`:                            "error: plugins is missing",
		`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"a"}],"loadOnlyInlinedPlugins":1}`:      "error: neither true nor false",
	} {
		put(t, filepath.Join(dir, "10-net.conflist"), conf)
		l, err := cni.LoadDir(dir)
		if part, fails := strings.CutPrefix(want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want %q", conf, err, part)
			}
			continue
		}
		if err != nil {
			t.Errorf("LoadDir with %s: %v", conf, err)
			continue
		}
		var types []string
		for _, p := range l.Plugins {
			types = append(types, p.Type)
		}
		if got := strings.Join(types, " "); got != want {
			t.Errorf("%s: plugins %s, want %s", conf, got, want)
		}
	}
	put(t, filepath.Join(dir, "10-net.conflist"), `{"cniVersion":"1.1.0","name":"net"}`)
	put(t, filepath.Join(dir, "net", "30-bad.conf"), `{"type":"../x"}`)
	if _, err := cni.LoadDir(dir); err == nil || !strings.Contains(err.Error(), "30-bad.conf") {
		t.Errorf("a bad plugin's file is not named: %v", err)
	}
}

// TestWatcher follows a directory from before it exists to after its end.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "net.d")
		seen := make(chan string, 10) // more than any step makes
		w, err := cni.NewWatcher(cni.WatcherConfig{Dir: dir, Period: time.Minute, OnChange: func(l *cni.List, err error) {
			name := "none"
			if l != nil {
				name = fmt.Sprint(l.Name, len(l.Plugins))
			}
			seen <- fmt.Sprint(name, " ", err == nil)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if l, err := w.List(); l != nil || !errors.Is(err, cni.ErrNoConfig) {
			t.Errorf("before Run: %v %v", l, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one answer
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() { go func() { done <- w.Run(ctx) }() }, "none false"},
			{func() { put(t, filepath.Join(dir, "20-b.conf"), `{"cniVersion":"1.0.0","name":"b","type":"p"}`) }, "b1 true"},
			{func() {}, ""},
			{func() {
				put(t, filepath.Join(dir, "10-a.conflist"), `{"cniVersion":"1.1.0","name":"a","plugins":[{"type":"p"}]}`)
			}, "a1 true"},
			{func() { put(t, filepath.Join(dir, "a", "x.conf"), `{"type":"q"}`) }, "a2 true"},
			{func() { put(t, filepath.Join(dir, "10-a.conflist"), `{"cniVersion":"1.1`) }, "a2 false"}, // half written
			{func() {
				put(t, filepath.Join(dir, "10-a.conflist"), `{"cniVersion":"1.1.0","name":"a","plugins":[{"type":"p"}]}`)
			}, "a2 true"},
			{func() { _ = os.Remove(filepath.Join(dir, "10-a.conflist")) }, "b1 true"},
			{func() { _ = os.RemoveAll(dir) }, "b1 false"},
		} {
			step.change()
			time.Sleep(time.Minute)
			synctest.Wait()
			var got []string
			for len(seen) > 0 {
				got = append(got, <-seen)
			}
			if strings.Join(got, ", ") != step.want {
				t.Errorf("got %q, want %q", got, step.want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if _, err := cni.NewWatcher(cni.WatcherConfig{Period: -1}); err == nil {
		t.Error("a negative period was accepted")
	}
}

func ExampleWatcher() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := cni.NewWatcher(cni.WatcherConfig{Dir: dir, OnChange: func(l *cni.List, err error) {
		if err == nil {
			fmt.Println(l.Name, l.Version)
			cancel()
		}
	}})
	if err != nil {
		panic(err)
	}
	conf := []byte(`{"cniVersion": "1.1.0", "name": "pods", "type": "bridge"}`)
	if err := cni.WriteFile(filepath.Join(dir, "10-pods.conf"), conf); err != nil {
		panic(err)
	}
	if err := w.Run(ctx); err != nil {
		panic(err)
	}
	// Output: pods 1.1.0
}
