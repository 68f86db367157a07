// Package deps has the table of allowed imports between packages, and its test checks every package of the module.
// Other tests check log lines, and the fields of the kubelet's configuration.
package deps
