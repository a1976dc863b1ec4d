package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func TestStackStopsFromTheTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		s := newStack()
		for _, name := range []string{"storage", "server", "kubelet"} {
			s.start(name, func(ctx context.Context) error {
				<-ctx.Done()
				stopped = append(stopped, name) // stop waits for each, so no two append at once
				return nil
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"kubelet", "server", "storage"}; !slices.Equal(stopped, want) {
			t.Errorf("stopped %v, want %v", stopped, want)
		}
	})
}

func TestStackFailsWithItsFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		s.start("server", func(ctx context.Context) error { <-ctx.Done(); return errors.New("late") })
		s.start("storage", func(context.Context) error { return errors.New("disk is gone") })
		err := s.run(t.Context())
		if err == nil || err.Error() != "storage: disk is gone" {
			t.Errorf("run: %v", err)
		}
		if err := s.stop(); err == nil || !strings.Contains(err.Error(), "stop server: late") {
			t.Errorf("stop: %v", err)
		}
	})
}
