// Command policy runs a whole cluster with an admission plugin of its own: API server,
// controllers, scheduler and two nodes with simulated containers. It writes the
// administrator's configuration to the file policy.kubeconfig.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/pluginset"
	appsv1 "k8s.io/api/apps/v1"
)

// atMostFive refuses Deployments with more than five replicas.
func atMostFive(_ context.Context, r *admission.Request) error {
	if d, ok := r.Object.(*appsv1.Deployment); ok && d.Spec.Replicas != nil && *d.Spec.Replicas > 5 {
		return admission.Forbidden(r, errors.New("five replicas are enough"))
	}
	return nil
}

func run(ctx context.Context, dir, kubeconfig string) error {
	p, err := plane.New(plane.Config{
		Admission: pluginset.Options{More: []plugins.Plugin{
			{Name: "AtMostFive", New: func([]byte) (any, error) { return admission.ValidatorFunc(atMostFive), nil }},
		}},
		Parts: []plane.Part{nodes.InMemory(dir, 2)},
		// The nodes listen on the loopback address.
		MayDialNode: func(netip.Addr) error { return nil },
	})
	if err != nil {
		return err
	}
	if err := p.Kubeconfig().Write(kubeconfig); err != nil {
		return err
	}
	fmt.Printf("kubectl --kubeconfig %s create deployment web --image nginx --replicas 6\n", kubeconfig)
	return p.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, ".policy", "policy.kubeconfig"); err != nil {
		log.Fatal(err)
	}
}
