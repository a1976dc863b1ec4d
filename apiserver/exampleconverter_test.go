package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	"k8s.io/apimachinery/pkg/runtime"
)

// Widgets are stored in v2. A service converts them to v1, all of a list at once.
func ExampleConverter() {
	service := func(_ context.Context, objs []runtime.Object, version string) ([]runtime.Object, error) {
		fmt.Println("convert", len(objs), "objects to", version)
		out := make([]runtime.Object, len(objs))
		for i, obj := range objs {
			w := obj.(*NewWidget)
			out[i] = &Widget{ObjectMeta: w.ObjectMeta, Color: strings.Join(w.Colors, " and ")}
		}
		return out, nil
	}
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(),
		Resources: []apiserver.Resource{{
			Group: "example.com", Version: "v2", Kind: "Widget", Plural: "widgets", Namespaced: true,
			New:       func() runtime.Object { return &NewWidget{} },
			NewList:   func() runtime.Object { return &NewWidgetList{} },
			Converter: apiserver.ConverterFunc(service),
			Versions: []apiserver.Version{{
				Name:     "v1",
				New:      func() runtime.Object { return &Widget{} },
				NewList:  func() runtime.Object { return &WidgetList{} },
				Strategy: &apiserver.Strategy{},
			}},
		}},
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, nil }),
		Authorizer: authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
			return authz.Allow, "", nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: server.Transport(&user.Info{Name: "jane"})}
	const path = "http://memory/apis/example.com/%s/namespaces/default/widgets"
	for _, name := range []string{"one", "two"} {
		body := strings.NewReader("metadata: {name: " + name + "}\ncolors: [red, blue]\n")
		made, err := client.Post(fmt.Sprintf(path, "v2"), "application/yaml", body)
		if err != nil {
			fmt.Println(err)
			return
		}
		made.Body.Close()
	}
	for range 2 {
		read, err := client.Get(fmt.Sprintf(path, "v1"))
		if err != nil {
			fmt.Println(err)
			return
		}
		read.Body.Close()
		fmt.Println(read.StatusCode)
	}
	// Output:
	// convert 2 objects to v1
	// 200
	// 200
}
