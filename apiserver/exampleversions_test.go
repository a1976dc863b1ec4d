package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NewWidget is the next version of Widget, in which a widget may have several colors.
type NewWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Colors            []string `json:"colors"`
}

func (w *NewWidget) DeepCopyObject() runtime.Object {
	return &NewWidget{w.TypeMeta, *w.ObjectMeta.DeepCopy(), append([]string(nil), w.Colors...)}
}

type NewWidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NewWidget `json:"items"`
}

func (l *NewWidgetList) DeepCopyObject() runtime.Object {
	c := &NewWidgetList{l.TypeMeta, *l.ListMeta.DeepCopy(), nil}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*NewWidget))
	}
	return c
}

// Widgets are stored in v2 and still served in v1.
func ExampleVersion() {
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(),
		Resources: []apiserver.Resource{{
			Group: "example.com", Version: "v2", Kind: "Widget", Plural: "widgets", Namespaced: true,
			New:     func() runtime.Object { return &NewWidget{} },
			NewList: func() runtime.Object { return &NewWidgetList{} },
			Versions: []apiserver.Version{{
				Name:    "v1",
				New:     func() runtime.Object { return &Widget{} },
				NewList: func() runtime.Object { return &WidgetList{} },
				To: func(obj runtime.Object) (runtime.Object, error) {
					w := obj.(*Widget)
					return &NewWidget{ObjectMeta: w.ObjectMeta, Colors: strings.Split(w.Color, " and ")}, nil
				},
				From: func(obj runtime.Object) (runtime.Object, error) {
					w := obj.(*NewWidget)
					return &Widget{ObjectMeta: w.ObjectMeta, Color: strings.Join(w.Colors, " and ")}, nil
				},
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
	made, err := client.Post(fmt.Sprintf(path, "v1"), "application/yaml", strings.NewReader("metadata: {name: one}\ncolor: red and blue\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	made.Body.Close()
	read, err := client.Get(fmt.Sprintf(path, "v2") + "/one")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer read.Body.Close()
	body, err := io.ReadAll(read.Body)
	fmt.Println(made.StatusCode, read.StatusCode, strings.Contains(string(body), `"colors":["red","blue"]`), err)
	// Output: 201 200 true <nil>
}
