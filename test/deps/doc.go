// Package deps has the table of allowed imports between packages, and its test checks every package of the module. It
// also finds exported names that no other package uses.
package deps
