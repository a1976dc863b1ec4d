package etcdstore_test

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/planekit/planekit/storage"
)

// events creates n records that live an hour.
func events(t *testing.T, store storage.Store, name string, n int) {
	t.Helper()
	for i := range n {
		c := storage.Change{Key: storage.Key(fmt.Sprintf("/events/%s-%d", name, i)), TTL: time.Hour}
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

func leases(t *testing.T, client *clientv3.Client) []clientv3.LeaseStatus {
	t.Helper()
	response, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return response.Leases
}

// Records of one time to live share leases, so that etcd has few to keep; but
// not too many records one lease, which etcd deletes in one transaction.
func TestLeasesAreShared(t *testing.T) {
	client := serve(t)
	store := stores(client, true)(t)
	events(t, store, "a", 1000)
	if all := leases(t, client); len(all) != 1 {
		t.Errorf("%d leases for 1000 records", len(all))
	}
	events(t, store, "b", 1)
	all := leases(t, client)
	if len(all) != 2 {
		t.Errorf("%d leases for 1001 records", len(all))
	}
	for _, l := range all {
		left, err := client.TimeToLive(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		if least, most := int64(3600), int64(3660); left.GrantedTTL < least || left.GrantedTTL > most {
			t.Errorf("a lease of %d s for records that live an hour", left.GrantedTTL)
		}
	}
}

// A lease that is gone is replaced.
func TestLeaseIsLost(t *testing.T) {
	client := serve(t)
	store := stores(client, true)(t)
	events(t, store, "a", 1)
	for _, l := range leases(t, client) {
		if _, err := client.Revoke(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
	events(t, store, "b", 2)
	if all := leases(t, client); len(all) != 1 {
		t.Errorf("%d leases", len(all))
	}
}
