package crd_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
)

// A server serves what a definition describes as soon as the definition is established.
func Example() {
	server, err := apiserver.New(apiserver.Config{
		Resources: []apiserver.Resource{crd.Resource(nil)},
		Store:     memstore.New(), Authenticator: authn.Chain{}, Authorizer: authz.InsecureAlwaysAllow(),
	})
	if err != nil {
		panic(err)
	}
	served := make(chan []crd.Served, 1)
	definitions, err := crd.New(crd.Config{Server: server, Changed: func(all []crd.Served) { served <- all }})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- definitions.Run(ctx) }()

	jane := server.Transport(&user.Info{Name: "jane"})
	fmt.Println(post(jane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.example.com"},
		"spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "lamps", "kind": "Lamp"}, "versions": [{
			"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
				"properties": {"color": {"type": "string", "default": "red"}}}}}]}}`))
	for _, one := range <-served {
		fmt.Println(one.Plural, one.GroupVersionKind)
	}
	fmt.Println(post(jane, "/apis/example.com/v1/lamps", `{"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "desk"}, "watts": 5}`))
	stop()
	fmt.Println(<-stopped)
	// Output:
	// 201
	// lamps example.com/v1, Kind=Lamp
	// 201
	// <nil>
}

func post(to http.RoundTripper, path, body string) int {
	r, err := http.NewRequest("POST", "http://server"+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := to.RoundTrip(r)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		panic(err)
	}
	return response.StatusCode
}
