package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmall: the whole program, empty lines and all, is shorter than 60 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines >= 60 {
		t.Errorf("main.go has %d lines", lines)
	}
}

// TestLamps runs the program against an API server over TLS: lamps that are there
// before it and lamps that come later get the status that their specs ask for.
func TestLamps(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(lampResource()))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	api := connect(t, file)
	defer api.Close()
	lamps := client.For(api, lampKind)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	light := func(name string) {
		t.Helper()
		lamp := &Lamp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: Light{Lit: true}, Status: Light{Lit: true}}
		made, err := lamps.Create(ctx, lamp)
		if err != nil || made.Status.Lit {
			t.Fatal(made, err)
		}
	}
	light("before")
	programCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(programCtx, file) }()
	await(ctx, t, lamps, "before", true)
	light("after")
	await(ctx, t, lamps, "after", true)
	if _, err := lamps.Patch(ctx, "default", "before", "application/merge-patch+json", []byte(`{"spec":{"lit":false}}`)); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, lamps, "before", false)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestServe: what serve writes leads to a server of lamps, and the program works on it.
func TestServe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, stop := context.WithCancel(t.Context())
	served, ended := make(chan error, 1), make(chan error, 1)
	go func() { served <- serve(ctx, file) }()
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := os.Stat(file)
		if err == nil {
			break
		}
		select {
		case err := <-served:
			t.Fatalf("serve = %v before it has written %s, want that it serves", err, file)
		case <-wait.Done():
			t.Fatalf("serve has not written %s within a minute: %v", file, err)
		case <-time.After(time.Millisecond):
		}
	}
	api := connect(t, file)
	defer api.Close()
	lamps := client.For(api, lampKind)
	for last := error(nil); ; {
		_, err := lamps.Create(wait, &Lamp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hall"}, Spec: Light{Lit: true}})
		if err == nil {
			break
		}
		if wait.Err() != nil {
			t.Fatalf("Create(hall) = %v after a minute, %v before that, want nil", err, last)
		}
		last = err
		time.Sleep(5 * time.Millisecond)
	}
	go func() { ended <- run(ctx, file) }()
	await(wait, t, lamps, "hall", true)
	stop()
	if err := errors.Join(<-ended, <-served); err != nil {
		t.Error(err)
	}
}

// connect returns a client of the server in a kubeconfig.
func connect(t *testing.T, file string) *client.Client {
	t.Helper()
	api, err := kubeconfig.Connect(file)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// await waits until a lamp's status says lit.
func await(ctx context.Context, t *testing.T, lamps client.Resource[*Lamp], name string, lit bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		lamp, err := lamps.Get(ctx, "default", name)
		if err != nil {
			t.Fatalf("%s does not become %v: %v", name, lit, err)
		}
		if lamp.Status.Lit == lit && lamp.Spec.Lit == lit {
			return
		}
		<-tick.C
	}
}
