package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func widget(name, color string) *Widget {
	return &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Color: color}
}

// TestSmall: a type is served in less than 50 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("widget.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(source, []byte("\n")); lines >= 50 {
		t.Errorf("widget.go has %d lines", lines)
	}
}

// TestProgram: the whole program, asked over TLS with its kubeconfig.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, dir, "127.0.0.1:0", "", writer) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if line, err := bufio.NewReader(reader).ReadString('\n'); err != nil || !strings.Contains(line, "kubectl") {
		t.Fatal(line, err)
	}
	api, err := kubeconfig.Connect(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	painted := client.For(api, widgets)
	if _, err := painted.Create(ctx, widget("one", "red")); err != nil {
		t.Fatal(err)
	}
	awaitPaint(t, painted, "one", "red")
	repainted, err := painted.Patch(ctx, "default", "one", "application/merge-patch+json", []byte(`{"color":"blue"}`))
	if err != nil || repainted.Color != "blue" {
		t.Fatal(repainted, err)
	}
	awaitPaint(t, painted, "one", "blue")
	_, err = painted.Create(ctx, widget("two", "mauve"))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `color: Unsupported value: "mauve": supported values: "blue", "green", "red"`) {
		t.Error(err)
	}
}

// TestStranger: the resource in a server for tests, which tells users apart.
func TestStranger(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(served()))
	for _, who := range []struct {
		groups []string
		may    bool
	}{{nil, false}, {[]string{user.Masters}, true}} {
		api, err := client.New(client.Config{Server: "http://memory", Transport: server.Transport(&user.Info{Name: "jane", Groups: who.groups})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.For(api, widgets).Create(t.Context(), widget("one", "green"))
		if may := err == nil; may != who.may || (!may && !apierrors.IsForbidden(err)) {
			t.Errorf("in groups %v: %v", who.groups, err)
		}
	}
}

// awaitPaint waits until a widget is painted in color.
func awaitPaint(t *testing.T, painted client.Resource[*Widget], name, color string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		w, err := painted.Get(ctx, "default", name)
		if err != nil {
			t.Fatalf("it is not painted %s: %v", color, err)
		}
		if w.Painted == color {
			return
		}
		<-tick.C
	}
}
