// Command embed serves a type of its own as a Kubernetes-style API, without TLS:
//
//	go run ./examples/embed &
//	curl -H 'Authorization: Bearer let-me-in' http://127.0.0.1:8080/apis/example.com/v1/widgets
package main

import (
	"flag"
	"log"
	"net/http"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Widget is the type. SwaggerDoc, which it need not have, is what kubectl explain prints.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Color             string `json:"color"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	return &Widget{w.TypeMeta, *w.ObjectMeta.DeepCopy(), w.Color}
}

func (Widget) SwaggerDoc() map[string]string {
	return map[string]string{"": "Widget is a thing with a color.", "color": "The color, in English."}
}

var widgets = kind.Define(kind.Kind[*Widget]{
	Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true,
})

func handler() (http.Handler, error) {
	tokens, err := tokenfile.New([]tokenfile.Entry{{Token: "let-me-in", User: user.Info{Name: "jane", Groups: []string{"makers"}}}})
	if err != nil {
		return nil, err
	}
	return apiserver.New(apiserver.Config{
		Store: memstore.New(), Authenticator: tokens, Authorizer: authz.Superusers("makers"),
		Resources: []apiserver.Resource{apiserver.For(widgets, apiserver.Resource{})},
	})
}

func main() {
	address := flag.String("address", "127.0.0.1:8080", "where to serve, without TLS")
	flag.Parse()
	api, err := handler()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving; try: curl -H 'Authorization: Bearer let-me-in' http://%s%s", *address, "/apis/example.com/v1/widgets")
	log.Fatal(http.ListenAndServe(*address, api))
}
