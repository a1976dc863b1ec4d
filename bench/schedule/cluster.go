package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/remote"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// runCluster starts an API server in memory, fills it with a world, and lets a scheduler bind the pods, until
// all are bound or limit has passed; zero means no limit.
func runCluster(ctx context.Context, p peer, w *world, limit time.Duration) (f figures, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := plane.New(plane.Config{NoScheduler: true, NoControllers: true, Resources: claimResources()})
	if err != nil {
		return f, err
	}
	serverDone := goRun(func() error { return server.Run(ctx) })
	defer func() {
		cancel()
		err = errors.Join(err, ended(<-serverDone))
	}()
	select {
	case <-server.Ready():
	case err := <-serverDone:
		serverDone <- nil
		return f, fmt.Errorf("the API server ended: %w", err)
	}
	if err := create(ctx, server.Client(), w); err != nil {
		return f, err
	}
	if limit > 0 {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return bindAll(bounded, server, p, w)
	}
	return bindAll(ctx, server, p, w)
}

// goRun runs f in a goroutine. The channel gets its result.
func goRun(f func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// ended returns err unless it says that the run is over.
func ended(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// create creates the objects of a world.
func create(ctx context.Context, api *client.Client, w *world) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: highClass}, Value: highPriority}
	if _, err := typed.PriorityClasses(api).Create(ctx, class); err != nil {
		return err
	}
	for _, n := range w.nodes {
		if err := setNode(ctx, api, n); err != nil {
			return err
		}
	}
	pods := typed.Pods(api)
	for _, list := range [][]*corev1.Pod{w.placed, w.pending} {
		for _, p := range list {
			if _, err := pods.Create(ctx, forServer(p)); err != nil {
				return fmt.Errorf("create %s: %w", p.Name, err)
			}
		}
	}
	return nil
}

// forServer returns a pod as a client creates it.
func forServer(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.UID, p.Status = "", corev1.PodStatus{}
	p.Spec.AutomountServiceAccountToken, p.Spec.TerminationGracePeriodSeconds = new(false), new(int64(1))
	return p
}

// setNode creates or updates a node, which is ready.
func setNode(ctx context.Context, api *client.Client, n *corev1.Node) error {
	nodes := typed.Nodes(api)
	made := n.DeepCopy()
	made.UID = ""
	got, err := nodes.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		got, err = nodes.Get(ctx, "", n.Name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	// Admission has tainted a new node as one that is not ready yet.
	got.Spec, got.Labels, got.Annotations = n.Spec, n.Labels, n.Annotations
	if got, err = nodes.Update(ctx, got); err != nil {
		return fmt.Errorf("update %s: %w", n.Name, err)
	}
	if got.Status.Allocatable != nil {
		return nil
	}
	got.Status = n.Status
	if _, err := nodes.UpdateStatus(ctx, got); err != nil {
		return fmt.Errorf("update the status of %s: %w", n.Name, err)
	}
	return nil
}

// bindAll runs the scheduler until all pods are bound.
func bindAll(ctx context.Context, server *plane.Plane, p peer, w *world) (f figures, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps := make(chan int, len(w.pending)) // the numbers of bound pods
	pending := make(map[string]bool, len(w.pending))
	for _, pod := range w.pending {
		pending[pod.Name] = true
	}
	watch := server.Caches.Pods.Subscribe(func(old, pod *corev1.Pod) {
		if pod == nil {
			return
		}
		if pod.Spec.NodeName != "" && pending[pod.Name] {
			delete(pending, pod.Name)
			steps <- len(w.pending) - len(pending)
		}
		if pod.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
			time.AfterFunc(endsAfter, func() { end(ctx, server.Client(), pod.Name) })
		}
	})
	defer watch.Stop()
	<-watch.CaughtUp
	cpu, began := cpuTime(), time.Now()
	done := goRun(func() error { return p.run(ctx, server.Kubeconfig()) })
	changed := 0 // as many times as pods are bound, and once before
	for bound := 0; ; {
		for ; w.before != nil && changed <= bound && changed < len(w.pending); changed++ {
			if err := makeChanges(ctx, server.Client(), w.before(changed)); err != nil {
				return f, err
			}
		}
		if bound == len(w.pending) {
			break
		}
		select {
		case bound = <-steps:
		case <-ctx.Done():
			if bound == 0 || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return f, fmt.Errorf("%d of %d pods are bound: %w", bound, len(w.pending), ctx.Err())
			}
			f.placed, f.took, f.cpu = bound, time.Since(began), cpuTime()-cpu
			return f, ended(<-done)
		case err := <-done:
			if ctx.Err() == nil {
				return f, fmt.Errorf("the scheduler ended after %d of %d pods: %w", bound, len(w.pending), err)
			}
			done <- err // it ended because ctx did
		}
	}
	f.placed, f.took, f.cpu = len(w.pending), time.Since(began), cpuTime()-cpu
	cancel()
	return f, ended(<-done)
}

// endsAfter is how long a deleted pod takes to end. There is no kubelet that would end it. The stock scheduler
// sometimes forgets a pod that waits for victims if they are gone at once.
const endsAfter = 50 * time.Millisecond

// end deletes a pod for good. If that fails, the pods that wait for its room are never bound.
func end(ctx context.Context, api *client.Client, name string) {
	_ = typed.Pods(api).Delete(ctx, namespace, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// makeChanges makes the changes before one pod.
func makeChanges(ctx context.Context, api *client.Client, list []change) error {
	for _, c := range list {
		var err error
		if c.node != nil {
			err = setNode(ctx, api, c.node)
		} else {
			err = typed.Pods(api).Delete(ctx, namespace, c.gone.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runOwn runs planekit's scheduler over a client.
func runOwn(ctx context.Context, config *kubeconfig.Config) error {
	all, ranked, err := ownProfile()
	if err != nil {
		return err
	}
	connection, _, err := config.Client("")
	if err != nil {
		return err
	}
	api, err := client.New(connection)
	if err != nil {
		return err
	}
	defer api.Close()
	s, err := remote.New(api, schedule.Config{Predicates: all, Priorities: ranked})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// runStock returns the run of a stock scheduler that looks at a percentage of the nodes.
func runStock(percentage int32) func(context.Context, *kubeconfig.Config) error {
	return func(ctx context.Context, config *kubeconfig.Config) error {
		text, err := config.Marshal()
		if err != nil {
			return err
		}
		connection, err := clientcmd.RESTConfigFromKubeConfig(text)
		if err != nil {
			return err
		}
		connection.QPS, connection.ContentType = -1, "application/vnd.kubernetes.protobuf"
		connection.AcceptContentTypes = connection.ContentType + ",application/json"
		api, err := clientset.NewForConfig(connection)
		if err != nil {
			return err
		}
		s, factory, err := newStock(ctx, api, percentage)
		if err != nil {
			return err
		}
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		factory.WaitForCacheSync(ctx.Done())
		if err := s.WaitForHandlersSync(ctx); err != nil {
			return err
		}
		s.Run(ctx)
		return nil
	}
}
