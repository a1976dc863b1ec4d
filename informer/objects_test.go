package informer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// TestObjectConfig: API objects have their keys, their revisions and, when one
// replaces another, a deletion and an addition.
func TestObjectConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, err := informer.New(informer.ObjectConfig(apiSource{}))
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		inf.Subscribe(func(old, new *apiObject) {
			line := "none"
			if old != nil {
				line = string(old.uid) + old.revision
			}
			if new != nil {
				line += " " + string(new.uid) + new.revision
			}
			told = append(told, line)
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
		slices.Sort(told[:2]) // the list comes in no particular order
		if want := []string{"none a1", "none b2", "a1 a3", "a3", "none c4"}; !slices.Equal(told, want) {
			t.Errorf("told of %q, want %q", told, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
