package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// lampList is the type of a list of lamps.
type lampList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Lamp `json:"items"`
}

func (l *lampList) DeepCopyObject() runtime.Object {
	c := &lampList{l.TypeMeta, *l.ListMeta.DeepCopy(), nil}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Lamp))
	}
	return c
}

// TestLamps runs the program against an API server over TLS: lamps that are there
// before it and lamps that come later get the status that their specs ask for.
func TestLamps(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(apiserver.Resource{
		Group: lampType.Group, Version: lampType.Version, Kind: lampType.Kind, Plural: lampType.Plural, Namespaced: true,
		New: func() runtime.Object { return &Lamp{} }, NewList: func() runtime.Object { return &lampList{} },
		Subresources: []apiserver.Subresource{apiserver.Status{
			Strategy: apiserver.Strategy{PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) { obj.(*Lamp).Spec = old.(*Lamp).Spec }}}},
		Strategy: apiserver.Strategy{
			PrepareForCreate: func(_ context.Context, obj runtime.Object) { obj.(*Lamp).Status = Light{} },
			PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) { obj.(*Lamp).Status = old.(*Lamp).Status },
		},
	}))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := kubeconfig.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := loaded.Client("")
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	lamps := client.For(api, lampType)
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
