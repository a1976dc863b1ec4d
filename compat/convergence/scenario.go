package convergence

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Scenario lists the steps to play on every side.
type Scenario struct {
	// Name is also the name of the namespace.
	Name string
	// Alone means that the scenario is played after all others, which would change its result.
	Alone bool
	// Quiet is the time without a change after which the next pod advances. Zero
	// means 300 ms. It must be longer for controllers that wait on purpose, as the one
	// of jobs does.
	Quiet time.Duration
	Steps []Step
}

// Step is one change and what comes of it.
type Step struct {
	Name string
	// Do changes something.
	Do func(context.Context, *Room) error
	// Until, where it is set, must be true before the room can have settled: for
	// what is done by the clock.
	Until func(context.Context, *Room) (bool, error)
}

// Room is where a scenario is played: a namespace of one side.
type Room struct {
	Client    kubernetes.Interface
	Namespace string

	side   *Side
	hollow *hollow
	quiet  time.Duration
}

// settled is how long nothing must have happened in a room for it to be written
// down. Controllers that collect what they have to do wait a second at most.
const settled = 1500 * time.Millisecond

// patience is how long a step may take.
const patience = time.Minute

// play plays a scenario and returns what there was after each step, until one
// fails.
func (s *Side) play(ctx context.Context, number int, scenario Scenario) ([]Snapshot, error) {
	room := &Room{
		Client: s.client, Namespace: scenario.Name, side: s, quiet: scenario.Quiet,
		hollow: &hollow{client: s.client, record: s.record, namespace: scenario.Name, number: number},
	}
	if room.quiet == 0 {
		room.quiet = 300 * time.Millisecond
	}
	var out []Snapshot
	for _, step := range append([]Step{open()}, scenario.Steps...) {
		taken, err := room.take(ctx, step)
		if err != nil {
			return out, fmt.Errorf("%s: %w", step.Name, err)
		}
		out = append(out, taken)
	}
	return out, nil
}

// open is the first step of every scenario: the namespace, with what controllers
// put into each.
func open() Step {
	return Step{
		Name: "namespace",
		Do: func(ctx context.Context, r *Room) error {
			_, err := r.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}}, metav1.CreateOptions{})
			return err
		},
		Until: func(ctx context.Context, r *Room) (bool, error) {
			_, accountErr := r.Client.CoreV1().ServiceAccounts(r.Namespace).Get(ctx, "default", metav1.GetOptions{})
			_, rootsErr := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			err := errors.Join(accountErr, rootsErr)
			if apierrors.IsNotFound(accountErr) || apierrors.IsNotFound(rootsErr) {
				err = nil
			}
			return accountErr == nil && rootsErr == nil, err
		},
	}
}

// take takes one step and writes down where it has led.
func (r *Room) take(ctx context.Context, step Step) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := step.Do(ctx, r); err != nil {
		return nil, err
	}
	r.side.record.touch(r.Namespace)
	if err := r.settle(ctx, step.Until); err != nil {
		return nil, err
	}
	return take(ctx, r.side.dynamic, r.side.record, r.Namespace)
}

// settle lets pods live until nothing is due any more and nothing happens.
func (r *Room) settle(ctx context.Context, until func(context.Context, *Room) (bool, error)) error {
	for {
		if err := r.await(ctx, r.quiet); err != nil {
			return err
		}
		acted, err := r.hollow.step(ctx)
		if err != nil {
			return err
		}
		if acted {
			r.side.record.touch(r.Namespace)
			continue
		}
		if until != nil {
			so, err := until(ctx, r)
			if err != nil {
				return err
			}
			if !so {
				if err := pause(ctx, 50*time.Millisecond); err != nil {
					return fmt.Errorf("what was waited for does not come: %w", err)
				}
				continue
			}
			until = nil
		}
		// Something may begin only now.
		if r.side.record.quietFor(r.Namespace) >= settled {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// await waits until nothing has happened for a while.
func (r *Room) await(ctx context.Context, quiet time.Duration) error {
	for {
		since := r.side.record.quietFor(r.Namespace)
		if since >= quiet {
			return nil
		}
		if err := pause(ctx, quiet-since); err != nil {
			return fmt.Errorf("there is no end of changes: %w", err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
