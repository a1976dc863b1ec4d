package encrypted_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/encrypted"
	"github.com/planekit/planekit/storage/memstore"
)

// What is under /secrets/ is sealed in the store underneath.
func Example() {
	ctx := context.Background()
	plain := memstore.New()
	store, err := encrypted.New(encrypted.Config{Store: plain, Rules: []encrypted.Rule{{
		Prefix:  "/secrets/",
		Ciphers: []encrypted.Cipher{{Name: "key1", Key: bytes.Repeat([]byte("k"), 32)}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []storage.Key{"/secrets/password", "/pods/web"} {
		if _, err := store.Commit(ctx, storage.Change{Key: key, Value: []byte("swordfish")}); err != nil {
			fmt.Println(err)
			return
		}
		opened, err := store.Get(ctx, key, 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		kept, err := plain.Get(ctx, key, 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s, kept as %.22q\n", key, opened.Value, kept.Value)
	}
	// Output:
	// /secrets/password: swordfish, kept as "k8s:enc:aesgcm:v1:key1"
	// /pods/web: swordfish, kept as "swordfish"
}
