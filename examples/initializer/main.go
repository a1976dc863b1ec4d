// Command initializer puts a proxy beside the containers of every new pod that
// exposes port 80, and refuses new secrets whose password is short. Others see
// neither before it has looked at them. The server needs the plugin Initializers
// and a configuration that names this initializer:
//
//	kubectl apply -f examples/initializer/configuration.yaml
//	go run ./examples/initializer --kubeconfig ~/.kube/config
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"slices"
	"syscall"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/reconcile/initializer"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

func main() {
	file := flag.String("kubeconfig", "kubeconfig", "how the cluster is reached")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := kubeconfig.Load(*file)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, config); err != nil {
		log.Fatal(err)
	}
}

// run initializes pods and secrets until ctx is done.
func run(ctx context.Context, file *kubeconfig.Config) error {
	to, _, err := file.Client("")
	if err != nil {
		return err
	}
	api := &http.Client{Transport: &http.Transport{TLSClientConfig: to.TLS, ForceAttemptHTTP2: true}}
	defer api.CloseIdleConnections()
	pods, err := initializer.New(initializer.Config[corev1.Pod]{
		Name: "sidecar.example.com", URL: to.Server + "/api/v1/pods", Client: api, BearerToken: to.BearerToken, Initialize: addProxy,
	})
	if err != nil {
		return err
	}
	secrets, err := initializer.New(initializer.Config[corev1.Secret]{
		Name: "password.example.com", URL: to.Server + "/api/v1/secrets", Client: api, BearerToken: to.BearerToken, Initialize: checkPassword,
	})
	if err != nil {
		return err
	}
	loops, ctx := errgroup.WithContext(ctx)
	loops.Go(func() error { return pods.Run(ctx) })
	loops.Go(func() error { return secrets.Run(ctx) })
	return loops.Wait()
}

func addProxy(_ context.Context, pod *corev1.Pod) error {
	exposed := func(p corev1.ContainerPort) bool { return p.ContainerPort == 80 }
	if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return slices.ContainsFunc(c.Ports, exposed) }) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: "envoyproxy/envoy:v1.31.0"})
	}
	return nil
}

func checkPassword(_ context.Context, secret *corev1.Secret) error {
	if password, ok := secret.Data["password"]; ok && len(password) < 8 {
		return initializer.Refuse("secret %s: the password must have at least 8 characters", secret.Name)
	}
	return nil
}
