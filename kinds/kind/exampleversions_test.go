package kind_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Gadget may have several colors. GadgetV1 is its version before, with one text.
type (
	Gadget struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Colors            []string `json:"colors"`
	}
	GadgetV1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Color             string `json:"color"`
	}
)

func (g *Gadget) DeepCopyObject() runtime.Object {
	return &Gadget{g.TypeMeta, *g.ObjectMeta.DeepCopy(), append([]string(nil), g.Colors...)}
}

func (g *GadgetV1) DeepCopyObject() runtime.Object {
	return &GadgetV1{g.TypeMeta, *g.ObjectMeta.DeepCopy(), g.Color}
}

// Gadgets are stored in v2 and also served in v1.
var (
	gadgets = kind.Define(kind.Kind[*Gadget]{
		Group: "example.com", Version: "v2", Kind: "Gadget", Plural: "gadgets", Namespaced: true,
		Versions: []kind.Version{kind.NewVersion("v1", fromV1, toV1)},
	})
	gadgetsV1 = kind.In[*GadgetV1](gadgets, "v1")
)

func fromV1(old *GadgetV1, g *Gadget) error {
	g.Colors = strings.Split(old.Color, " and ")
	return nil
}

func toV1(g *Gadget, old *GadgetV1) error {
	old.Color = strings.Join(g.Colors, " and ")
	return nil
}

// A gadget created in one version is read and patched in the other.
func ExampleNewVersion() {
	server := must(apiserver.New(apiserver.Config{
		Resources: []apiserver.Resource{apiserver.For(gadgets, apiserver.Resource{})},
		Store:     memstore.New(), Authenticator: authn.Chain{}, Authorizer: authz.InsecureAlwaysAllow(),
	}))
	jane := must(client.New(client.InProcess(server.Transport(&user.Info{Name: "jane"}))))

	ctx := context.Background()
	must(client.For(jane, gadgetsV1).Create(ctx, &GadgetV1{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}, Color: "red and blue",
	}))
	fmt.Printf("%q\n", must(client.For(jane, gadgets).Get(ctx, "default", "one")).Colors)
	must(client.For(jane, gadgets).Patch(ctx, "default", "one", "application/merge-patch+json", []byte(`{"colors":["green"]}`)))
	fmt.Println(must(client.For(jane, gadgetsV1).Get(ctx, "default", "one")).Color)
	// Output:
	// ["red" "blue"]
	// green
}
