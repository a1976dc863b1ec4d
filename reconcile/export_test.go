package reconcile

import "context"

// Next is what a worker of a Controller does between two calls.
func (q *Queue[K]) Next(ctx context.Context, key K, failed bool, o AddOptions) (K, error) {
	if failed {
		return q.next(ctx, key, again, o)
	}
	return q.next(ctx, key, succeeded, AddOptions{})
}
