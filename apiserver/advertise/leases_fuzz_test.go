package advertise

import "testing"

// FuzzLease: a lease is an address or an error, whatever was stored.
func FuzzLease(f *testing.F) {
	f.Add([]byte(`{"kind":"Endpoints","apiVersion":"v1","subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":6443}]}]}`))
	f.Add([]byte(`{"subsets":[{"addresses":[{"ip":"::ffff:192.0.2.1"}],"ports":[{"port":-1}]}]}`))
	f.Add([]byte("k8s\x00\x0a\x02"))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		address, err := decodeLease(value)
		if err != nil && address.IsValid() {
			t.Errorf("%s with %v", address, err)
		}
		if address.Addr().Is4In6() {
			t.Errorf("%s is written in two ways", address)
		}
	})
}
