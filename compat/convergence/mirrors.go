//lint:file-ignore SA1019 users still make Endpoints by hand

package convergence

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mirrors returns the scenarios of Endpoints that a user made by hand.
func Mirrors() []Scenario {
	const quiet = 1300 * time.Millisecond
	database := corev1.EndpointSubset{
		Addresses:         []corev1.EndpointAddress{{IP: "192.0.2.1", Hostname: "db-0"}, {IP: "192.0.2.2"}, {IP: "2001:db8::1"}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "192.0.2.3"}},
		Ports:             []corev1.EndpointPort{{Name: "sql", Port: 5432}, {Name: "admin", Port: 8080}},
	}
	return []Scenario{
		{Name: "mirrored", Quiet: quiet, Steps: []Step{
			{Name: "endpoints without a service", Do: createEndpoints("db", database)},
			{Name: "service", Do: createService(service("db", nil))},
			{Name: "fewer addresses", Do: changeEndpoints("db", func(e *corev1.Endpoints) { e.Subsets[0].Addresses = e.Subsets[0].Addresses[:1] })},
			{Name: "other ports", Do: changeEndpoints("db", func(e *corev1.Endpoints) {
				e.Subsets[0].Ports = []corev1.EndpointPort{{Name: "sql", Port: 5433}}
			})},
			// In a step of its own: which of two new sets of ports an old slice becomes is
			// by chance with Kubernetes.
			{Name: "more ports", Do: changeEndpoints("db", func(e *corev1.Endpoints) {
				e.Subsets = append(e.Subsets, corev1.EndpointSubset{
					Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1", Hostname: "db-0"}}, Ports: []corev1.EndpointPort{{Name: "backup", Port: 5434}},
				})
			})},
			{Name: "labels", Do: changeEndpoints("db", func(e *corev1.Endpoints) {
				e.Labels, e.Annotations = map[string]string{"app": "other"}, map[string]string{"note": "mirrored as well"}
			})},
			{Name: "skipped", Do: changeEndpoints("db", func(e *corev1.Endpoints) { e.Labels["endpointslice.kubernetes.io/skip-mirror"] = "true" })},
			{Name: "not skipped", Do: changeEndpoints("db", func(e *corev1.Endpoints) { delete(e.Labels, "endpointslice.kubernetes.io/skip-mirror") })},
			{Name: "nobody", Do: changeEndpoints("db", func(e *corev1.Endpoints) { e.Subsets = nil })},
			// Mirrored first, and a record of an election only then: a controller that sees
			// both changes at once mirrors nothing and reports nothing.
			{Name: "candidate", Do: all(createService(service("leader", nil)), createEndpoints("leader", database))},
			{Name: "election", Do: changeEndpoints("leader", func(e *corev1.Endpoints) {
				e.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"me"}`}
			})},
		}},
		{Name: "unmirrored", Quiet: quiet, Steps: []Step{
			{Name: "create", Do: all(createService(service("db", nil)), createEndpoints("db", database),
				createService(service("web", nil)), createEndpoints("web", database))},
			{Name: "a selector", Do: func(ctx context.Context, r *Room) error {
				s, err := r.Client.CoreV1().Services(r.Namespace).Get(ctx, "db", metav1.GetOptions{})
				if err != nil {
					return err
				}
				s.Spec.Selector = map[string]string{"app": "db"}
				_, err = r.Client.CoreV1().Services(r.Namespace).Update(ctx, s, metav1.UpdateOptions{})
				return err
			}},
			// Kubernetes' controller tries again after one, two and more seconds if its cache
			// does not have its own last write yet, so a quiet room may not have settled.
			{Name: "slices are deleted", Until: slicesOf("web", 2), Do: func(ctx context.Context, r *Room) error {
				return r.Client.DiscoveryV1().EndpointSlices(r.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
			}},
			{Name: "delete", Do: func(ctx context.Context, r *Room) error {
				return r.Client.CoreV1().Services(r.Namespace).Delete(ctx, "web", metav1.DeleteOptions{})
			}},
		}},
	}
}

// slicesOf returns a condition that is true while a service has a number of slices.
func slicesOf(service string, number int) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		list, err := r.Client.DiscoveryV1().EndpointSlices(r.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
		if err != nil {
			return false, err
		}
		return len(list.Items) == number, nil
	}
}

func createEndpoints(name string, subsets ...corev1.EndpointSubset) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.CoreV1().Endpoints(r.Namespace).Create(ctx, &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Subsets: subsets,
		}, metav1.CreateOptions{})
		return err
	}
}

func changeEndpoints(name string, change func(*corev1.Endpoints)) do {
	return func(ctx context.Context, r *Room) error {
		e, err := r.Client.CoreV1().Endpoints(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(e)
		_, err = r.Client.CoreV1().Endpoints(r.Namespace).Update(ctx, e, metav1.UpdateOptions{})
		return err
	}
}
