// Command configmaps keeps a ConfigMap for each Deployment with the annotation
// example.com/settings, on the cluster of KUBECONFIG. The Deployment owns the ConfigMap, so that
// garbage collection deletes it. The tests of compat/configmaps are the same controller with
// client-go and with controller-runtime.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotation holds the settings of a Deployment.
const annotation = "example.com/settings"

// run runs the controller until ctx is done.
func run(ctx context.Context, api *client.Client) error {
	deployments, err1 := informer.For(typed.Deployments(api))
	maps, err2 := informer.For(typed.ConfigMaps(api))
	c, err3 := reconcile.New(reconcile.Config[string]{Name: "configmaps", Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
		deployment, ok := deployments.Get(key)
		if !ok || deployment.Annotations[annotation] == "" || deployment.DeletionTimestamp != nil {
			return reconcile.Result{}, nil // garbage collection deletes the ConfigMap
		}
		wanted := settings(deployment)
		have, ok := maps.Get(key)
		if ok && have.Data["settings"] == wanted.Data["settings"] {
			return reconcile.Result{}, nil
		}
		var err error
		if ok {
			wanted.ResourceVersion = have.ResourceVersion
			_, err = typed.ConfigMaps(api).Update(ctx, wanted)
		} else {
			_, err = typed.ConfigMaps(api).Create(ctx, wanted)
		}
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			return reconcile.Result{}, nil // the cache is old: its next event calls again
		}
		return reconcile.Result{}, err
	}})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	reconcile.Watch(c, deployments, reconcile.Itself(key[*appsv1.Deployment]))
	reconcile.Watch(c, maps, reconcile.Itself(key[*corev1.ConfigMap])) // it has its owner's name
	parts, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{deployments.Run, maps.Run, c.Run} {
		parts.Go(func() error { return part(ctx) })
	}
	return parts.Wait()
}

func key[T metav1.Object](object T) string { return object.GetNamespace() + "/" + object.GetName() }

// settings returns the ConfigMap of a Deployment.
func settings(d *appsv1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Data: map[string]string{"settings": d.Annotations[annotation]},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Getenv("KUBECONFIG")); err != nil {
		log.Fatal(err)
	}
}

func command(ctx context.Context, file string) error {
	api, err := kubeconfig.Connect(file)
	if err != nil {
		return err
	}
	defer api.Close()
	return run(ctx, api)
}
