// Command admission serves Kubernetes' pods with an admission plugin of its own
// between those of Kubernetes: every pod must have an owner. It serves without TLS:
//
//	go run ./examples/admission &
//	curl -H 'Authorization: Bearer let-me-in' -H 'Content-Type: application/json' \
//	  -d '{"metadata":{"name":"web"},"spec":{"containers":[{"name":"web","image":"nginx"}]}}' \
//	  http://127.0.0.1:8080/api/v1/namespaces/default/pods
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/alwayspullimages"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
)

// Owned is the plugin: one type, here with one of the two methods.
type Owned struct{ Label string }

func (o Owned) Validate(_ context.Context, r *admission.Request) error {
	if pod, ok := r.Object.(*corev1.Pod); ok && r.Subresource == "" && pod.Labels[o.Label] == "" {
		return admission.Forbidden(r, errors.New("the label "+o.Label+" must say whose it is"))
	}
	return nil
}

func handler() (http.Handler, error) {
	chain, err := plugins.New(plugins.Config{
		Table: []plugins.Plugin{
			{Name: alwayspullimages.Name, New: func([]byte) (any, error) { return alwayspullimages.Plugin{}, nil }},
			{Name: "Owned", New: func([]byte) (any, error) { return Owned{Label: "owner"}, nil }},
		},
		Enable: []string{alwayspullimages.Name},
	})
	if err != nil {
		return nil, err
	}
	tokens, err := tokenfile.New([]tokenfile.Entry{{Token: "let-me-in", User: user.Info{Name: "jane", Groups: []string{"makers"}}}})
	if err != nil {
		return nil, err
	}
	return apiserver.New(apiserver.Config{
		Store: memstore.New(), Authenticator: tokens, Authorizer: authz.Superusers("makers"), Admission: chain, Resources: kube.Resources(),
	})
}

func main() {
	address := flag.String("address", "127.0.0.1:8080", "where to serve, without TLS")
	flag.Parse()
	api, err := handler()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving; try: curl -H 'Authorization: Bearer let-me-in' http://%s%s", *address, "/api/v1/pods")
	log.Fatal(http.ListenAndServe(*address, api))
}
