package kind_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Color             string `json:"color"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	return &Widget{w.TypeMeta, *w.ObjectMeta.DeepCopy(), w.Color}
}

var widgets = kind.Define(kind.Kind[*Widget]{
	Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true,
})

// One value describes widgets to the server, to a client and to an informer.
func Example() {
	server := must(apiserver.New(apiserver.Config{
		Resources: []apiserver.Resource{apiserver.For(widgets, apiserver.Resource{})},
		Store:     memstore.New(), Authenticator: authn.Chain{}, Authorizer: authz.InsecureAlwaysAllow(),
	}))
	jane := must(client.New(client.InProcess(server.Transport(&user.Info{Name: "jane"}))))

	ctx, stop := context.WithCancel(context.Background())
	resource := client.For(jane, widgets)
	red := must(resource.Create(ctx, &Widget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}, Color: "red",
	}))

	cache := must(informer.For(resource))
	stopped := make(chan error)
	go func() { stopped <- cache.Run(ctx) }()
	fmt.Println(cache.WaitFor(ctx, red.ResourceVersion))
	widget, found := cache.Get("default/one")
	fmt.Println(widget.Color, found)

	stop()
	fmt.Println(<-stopped)
	// Output:
	// <nil>
	// red true
	// <nil>
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
