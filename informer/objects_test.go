package informer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/planekit/planekit/informer"
)

type uid string

type apiObject struct {
	namespace, name, revision string
	uid                       uid
}

func (o *apiObject) GetNamespace() string       { return o.namespace }
func (o *apiObject) GetName() string            { return o.name }
func (o *apiObject) GetResourceVersion() string { return o.revision }
func (o *apiObject) GetUID() uid                { return o.uid }

type apiSource struct{}

func ExampleFor() {
	// apiSource stands for a client.Resource, such as typed.Pods(c).
	objects, err := informer.For(apiSource{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- objects.Run(ctx) }()
	<-objects.Synced()
	node, _ := objects.Get("node")
	fmt.Println(node.GetName(), node.GetResourceVersion())
	cancel()
	fmt.Println(<-done)
	// Output:
	// node 2
	// <nil>
}

func ExampleConfigFor() {
	config := informer.ConfigFor(apiSource{})
	config.Log = funcr.New(func(_, line string) { fmt.Println(line) }, funcr.Options{})
	objects, err := informer.New(config)
	fmt.Println(objects != nil, err)
	// Output: true <nil>
}

func (apiSource) Sync(ctx context.Context, _ string, sink informer.Sink[*apiObject]) error {
	sink.Replace("2", []*apiObject{{"default", "web", "1", "a"}, {"", "node", "2", "b"}})
	for _, o := range []*apiObject{
		{"default", "web", "3", "a"}, {"default", "web", "4", "c"},
		{"default", "web", "3", "a"}, // older than what is there
	} {
		time.Sleep(time.Second) // of the bubble's clock
		sink.Put(o.revision, o)
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestConfigFor: the informer knows the keys and revisions of API objects, and reports a deletion and
// an addition when one replaces another.
func TestConfigFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, err := informer.New(informer.ConfigFor(apiSource{}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		inf.Subscribe(func(old, new *apiObject) {
			line := "none"
			if old != nil {
				line = string(old.uid) + old.revision
			}
			if new != nil {
				line += " " + string(new.uid) + new.revision
			}
			got = append(got, line)
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if o, ok := inf.Get("node"); !ok || o.uid != "b" {
			t.Errorf("node is %v", o)
		}
		if o, ok := inf.Get("default/web"); !ok || o.uid != "c" {
			t.Errorf("default/web is %v", o)
		}
		slices.Sort(got[:2]) // the list comes in no particular order
		if want := []string{"none a1", "none b2", "a1 a3", "a3", "none c4"}; !slices.Equal(got, want) {
			t.Errorf("the handler received %q, want %q", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
