package plane_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/pluginset"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A control plane in memory in which jane must label her ConfigMaps.
func Example() {
	p, err := plane.New(plane.Config{Admission: pluginset.Options{More: []plugins.Plugin{
		{Name: "OwnerLabel", New: func([]byte) (any, error) { return admission.ValidatorFunc(ownerLabel), nil }},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-p.Ready():
	case err := <-ended:
		fmt.Println(err)
		return
	}
	api, err := p.ClientFor(&user.Info{Name: "jane", Groups: []string{user.Masters}}, "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, labels := range []map[string]string{nil, {"owner": "jane"}} {
		_, err = typed.ConfigMaps(api).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors", Labels: labels}})
		fmt.Println(err)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// configmaps "colors" is forbidden: an owner label is required
	// <nil>
	// <nil>
}

func ownerLabel(_ context.Context, r *admission.Request) error {
	object, ok := r.Object.(*corev1.ConfigMap)
	if ok && r.User.Name == "jane" && object.Labels["owner"] == "" {
		return errors.New("an owner label is required")
	}
	return nil
}
