package etcdstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/planekit/planekit/storage/etcdstore"
)

// An etcd that is not there is an error that says so, and soon.
func ExampleDial() {
	client, err := etcdstore.Dial(context.Background(), etcdstore.DialConfig{
		Endpoints: []string{"http://127.0.0.1:1"},
		Timeout:   200 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close())
	// Output:
	// etcdstore: etcd at http://127.0.0.1:1: no answer within 200ms; http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused
}
