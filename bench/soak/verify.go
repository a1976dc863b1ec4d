package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/client/typed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience limits the time for Deployments and namespaces to reach their desired state without
// load.
const patience = 2 * time.Minute

// verify compares the world with the server while no operation is in progress.
func (s *soak) verify(ctx context.Context) error {
	s.pause.Lock()
	defer s.pause.Unlock()
	for _, space := range s.world.alive() {
		if err := errors.Join(s.verifyRecords(ctx, space), s.converge(ctx, space)); err != nil {
			return err
		}
	}
	return s.ended(ctx, s.world.alive())
}

// verifyRecords compares the ConfigMaps of a namespace with the acknowledged ones.
func (s *soak) verifyRecords(ctx context.Context, in *space) error {
	listed, _, err := typed.ConfigMaps(s.child.api).List(ctx, in.name, metav1.ListOptions{})
	if err != nil {
		return err
	}
	have := map[string]*corev1.ConfigMap{}
	for _, object := range listed {
		have[object.Name] = object
	}
	delete(have, "kube-root-ca.crt")
	in.mu.Lock()
	defer in.mu.Unlock()
	var wrong []error
	in.records = slices.DeleteFunc(in.records, func(r *record) bool {
		value, revision := absent, ""
		if object, ok := have[r.name]; ok {
			value, revision = object.Data["value"], object.ResourceVersion
			delete(have, r.name)
		}
		wrong = append(wrong, r.found(value, revision))
		return value == absent
	})
	for name := range have {
		wrong = append(wrong, fmt.Errorf("configmap %s/%s exists and should not", in.name, name))
	}
	return errors.Join(wrong...)
}

// converge waits until the Deployments of a namespace have the desired pods. It drops those that
// were never created.
func (s *soak) converge(ctx context.Context, in *space) error {
	return poll(ctx, patience, "deployments of "+in.name, func() (string, error) {
		deployments, _, err := typed.Deployments(s.child.api).List(ctx, in.name, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		pods, _, err := typed.Pods(s.child.api).List(ctx, in.name, metav1.ListOptions{LabelSelector: "soak=yes"})
		if err != nil {
			return "", err
		}
		in.deployments = in.deployments[:0]
		for _, d := range deployments {
			in.deployments = append(in.deployments, d.Name)
			running := 0
			for _, pod := range pods {
				if pod.Labels["name"] == d.Name && pod.Status.Phase == corev1.PodRunning {
					running++
				}
			}
			if missing := missing(d, running); missing != "" {
				return missing, nil
			}
		}
		services, _, err := typed.Services(s.child.api).List(ctx, in.name, metav1.ListOptions{})
		in.services = in.services[:0]
		for _, service := range services {
			in.services = append(in.services, service.Name)
		}
		return "", err
	})
}

// missing returns what a Deployment lacks, or "".
func missing(d *appsv1.Deployment, running int) string {
	want, status := *d.Spec.Replicas, d.Status
	if status.ObservedGeneration == d.Generation && status.Replicas == want && status.UpdatedReplicas == want &&
		status.AvailableReplicas == want && running == int(want) {
		return ""
	}
	return fmt.Sprintf("%s wants %d, has %d pods running and status %+v", d.Name, want, running, status)
}

// ended deletes the namespaces outside of alive, including those whose creation or deletion had no
// answer, and waits for their end.
func (s *soak) ended(ctx context.Context, alive []*space) error {
	namespaces := typed.Namespaces(s.child.api)
	deleted := map[string]bool{}
	return poll(ctx, patience, "namespaces", func() (string, error) {
		listed, _, err := namespaces.List(ctx, "", metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		var left []string
		for _, n := range listed {
			if !strings.HasPrefix(n.Name, "soak-") || slices.ContainsFunc(alive, func(s *space) bool { return s.name == n.Name }) {
				continue
			}
			left = append(left, n.Name)
			if deleted[n.Name] || n.DeletionTimestamp != nil {
				continue
			}
			if err := namespaces.Delete(ctx, "", n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return "", err
			}
			deleted[n.Name] = true
		}
		return strings.Join(left, " "), nil
	})
}

// drain deletes everything and verifies that it is gone.
func (s *soak) drain(ctx context.Context) error {
	s.pause.Lock()
	defer s.pause.Unlock()
	for s.world.oldest(0) != nil {
	}
	if err := s.ended(ctx, nil); err != nil {
		return err
	}
	for path, list := range map[string]func() (int, error){
		"configmaps":  count(ctx, typed.ConfigMaps(s.child.api).List),
		"pods":        count(ctx, typed.Pods(s.child.api).List),
		"replicasets": count(ctx, typed.ReplicaSets(s.child.api).List),
		"events":      count(ctx, typed.Events(s.child.api).List),
	} {
		if n, err := list(); n > 0 || err != nil {
			return errors.Join(fmt.Errorf("%d %s are left in namespaces that are gone", n, path), err)
		}
	}
	return nil
}

// count returns a function that counts the objects in namespaces of the soak.
func count[T metav1.Object](ctx context.Context, list func(context.Context, string, metav1.ListOptions) ([]T, string, error)) func() (int, error) {
	return func() (int, error) {
		objects, _, err := list(ctx, "", metav1.ListOptions{})
		n := 0
		for _, o := range objects {
			if strings.HasPrefix(o.GetNamespace(), "soak-") {
				n++
			}
		}
		return n, err
	}
}
