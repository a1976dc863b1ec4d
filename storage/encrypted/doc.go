// Package encrypted encrypts the values of any [storage.Store] with AES-GCM.
//
//	rules, err := encrypted.Parse(file, encrypted.Layout("/registry"))
//	...
//	store, err := encrypted.New(encrypted.Config{Store: etcd, Rules: rules})
//
// The file is Kubernetes' EncryptionConfiguration
// (https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data) with the
// providers aesgcm and identity:
//
//	kind: EncryptionConfiguration
//	apiVersion: apiserver.config.k8s.io/v1
//	resources:
//	- resources: [secrets, configmaps]
//	  providers:
//	  - aesgcm:
//	      keys:
//	      - {name: key2, secret: <base64 of 32 random bytes>}
//	      - {name: key1, secret: <base64 of 32 random bytes>}
//	  - identity: {}
//
// The first [Rule] whose prefix matches a key applies. The first cipher of a rule encrypts, all of
// them decrypt; the identity cipher leaves values unchanged. Values without a rule are unchanged,
// too. A value contains the name of its encryption key, in the format of kube-apiserver. It is
// bound to the key of its record and cannot be decrypted under another. Keys, revisions and the
// lengths of values are not encrypted.
//
// To rotate, put a new key first, restart every server, rewrite every record, and remove the old
// key. To start encrypting, do the same with identity last; to stop, with identity first. A record
// that was not written with the first cipher is reported as [storage.Record.Stale] and should be
// rewritten.
//
// Failures: a value that was changed, was encrypted with an unknown key, or is not encrypted where
// it should be, is [storage.ErrDamaged]. The error names the record and the encryption key, not the
// value. Such a record can be updated and deleted by its revision, and listings and watches
// continue.
//
// Not included: aescbc, secretbox and kms; reloading the file; and protection against an attacker
// that can write to the underlying store and restores an older value of the same key. Nonces are
// random, so one key should encrypt no more than 2³² values (NIST SP 800-38D). Rotate long before.
package encrypted
