package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Widget is a type of one's own. Nothing is generated.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Color             string `json:"color"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	return &Widget{w.TypeMeta, *w.ObjectMeta.DeepCopy(), w.Color}
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := &WidgetList{l.TypeMeta, *l.ListMeta.DeepCopy(), nil}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return c
}

func Example() {
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(),
		Resources: []apiserver.Resource{{
			Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true,
			New:     func() runtime.Object { return &Widget{} },
			NewList: func() runtime.Object { return &WidgetList{} },
		}},
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, nil }),
		Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if a.User.Name == "jane" {
				return authz.Allow, "", nil
			}
			return authz.NoOpinion, "", nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	url := "http://memory/apis/example.com/v1/namespaces/default/widgets"
	for _, name := range []string{"jane", "joe"} {
		client := &http.Client{Transport: server.Transport(&user.Info{Name: name})}
		response, err := client.Post(url+"?pretty=true", "application/yaml", strings.NewReader("metadata: {name: one}\ncolor: red\n"))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		fmt.Println(response.StatusCode, strings.Contains(string(body), `"color": "red"`), err)
	}
	// Output:
	// 201 true <nil>
	// 403 false <nil>
}

// A kind with a column of its own has no other columns than that and its name, unless it lists them: here
// kubectl get widgets shows NAME, COLOR and AGE.
func ExampleAgeColumn() {
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(),
		Resources: []apiserver.Resource{{
			Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true,
			New:     func() runtime.Object { return &Widget{} },
			NewList: func() runtime.Object { return &WidgetList{} },
			Columns: []apiserver.Column{
				{Name: "Color", Type: "string", Value: func(o runtime.Object) any { return o.(*Widget).Color }, Steady: true},
				apiserver.AgeColumn(),
			},
		}},
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, nil }),
		Authorizer:    authz.Superusers("makers"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: server.Transport(&user.Info{Name: "jane", Groups: []string{"makers"}})}
	url := "http://memory/apis/example.com/v1/namespaces/default/widgets"
	created, err := client.Post(url, "application/yaml", strings.NewReader("metadata: {name: one}\ncolor: red\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer created.Body.Close()
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	shown, err := client.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shown.Body.Close()
	var table metav1.Table
	if err := json.NewDecoder(shown.Body).Decode(&table); err != nil {
		fmt.Println(err)
		return
	}
	for i, column := range table.ColumnDefinitions {
		cell, _ := table.Rows[0].Cells[i].(string)
		if column.Type == "date" {
			age, err := time.ParseDuration(cell)
			cell = fmt.Sprint(age < time.Minute, err)
		}
		fmt.Println(column.Name, column.Type, cell)
	}
	// Output:
	// Name string one
	// Color string red
	// Age date true <nil>
}
