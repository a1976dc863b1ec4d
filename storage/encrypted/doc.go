// Package encrypted keeps values secret in any [storage.Store]: what is written
// through it is sealed with AES-GCM, what is read is opened again.
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
// The model: the first [Rule] whose prefix a key has decides. The first cipher of
// a rule writes, all of them read; the identity cipher leaves values as they are.
// Values of keys without a rule are left as they are. A value says which key
// sealed it, in the form that kube-apiserver uses. It is bound to the key it was
// written under: moved to another it does not open. Keys, revisions and the
// lengths of values are not secret.
//
// To rotate, put a new key first, restart every server, write every record again,
// and drop the old key. To begin, do the same with identity last; to end, with
// identity first. A record that another than the first cipher wrote reads as
// [storage.Record.Stale], so that its holder knows to write it again.
//
// How it fails: a value that was tampered with, was sealed by a key that is not
// configured, or is not sealed where it should be, is [storage.ErrDamaged]. The
// error names the record and the key, not the value. Such a record can be updated
// and deleted by its revision as any, and listings and watches go on.
//
// What it leaves out: aescbc, secretbox and kms, reading the file again while
// running, and protection from who can write to the store underneath and puts
// back an older value of the same key. Nonces are random, so one key should seal
// no more than 2³² values (NIST SP 800-38D); rotate long before.
package encrypted
